"""Metrics: counts and buckets of this process, and measures of a store, shown to Prometheus and to OpenTelemetry."""
