"""An adapter for the harness hardbyte/postgresql-job-queue-benchmarking, and two of its scenarios by our own hand."""
