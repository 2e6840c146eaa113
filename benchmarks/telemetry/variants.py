"""What is compared: each variant sets up a fresh process, and returns the options of its worker."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Options = dict[str, Any]
SetUp = Callable[[], Options]
OFF = "off"


def _off() -> Options:
    return {"log_jobs": False}


def _as_it_comes() -> Options:
    """No option at all, which trees of any age understand."""
    return {}


def _logs(form: Any) -> SetUp:
    def set_up() -> Options:
        from holdfast.telemetry.line_handler import log_to_stderr

        log_to_stderr("INFO", form)
        return {"log_jobs": True}

    return set_up


def _records() -> Options:
    """A program's own handler, which gets ordinary records."""
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    return {"log_jobs": True}


def _observed() -> Options:
    """An observer that hears everything, and does nothing."""
    from holdfast.telemetry.observer import HEARD, Observer

    ignore = {name: lambda self, *told: None for name in HEARD}
    return {"log_jobs": False, "observers": [type("Ignorant", (Observer,), ignore)()]}


def _metrics() -> Options:
    """Counts for Prometheus, with a port that nobody asks."""
    return {"log_jobs": False, "metrics_port": 0}


def _metrics_and_logs() -> Options:
    return {**_metrics(), **_logs("human")()}


def _otel() -> Options:
    """OpenTelemetry's SDK, with a reader in memory."""
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()]))
    return {"log_jobs": False}


def _no_provider() -> Options:
    """OpenTelemetry's API imported, and nothing set."""
    import opentelemetry.trace  # noqa: F401

    return {"log_jobs": False}


def _sampled(share: float) -> SetUp:
    """A provider that samples this share of traces, with the SDK's batch processor and an exporter that drops."""

    def set_up() -> Options:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
        from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

        class Dropping(SpanExporter):
            def export(self, spans: Any) -> SpanExportResult:
                return SpanExportResult.SUCCESS

        provider = TracerProvider(sampler=ParentBasedTraceIdRatio(share))
        provider.add_span_processor(BatchSpanProcessor(Dropping()))
        trace.set_tracer_provider(provider)
        return {"log_jobs": False}

    return set_up


@dataclass(frozen=True)
class Comparison:
    """Variants, the first of which all others are compared with."""

    variants: dict[str, SetUp]
    measures: tuple[str, ...]
    targets: dict[str, float] = field(default_factory=dict)
    """By variant: the least part of the first one's rate that a drain is to keep."""
    headers: frozenset[str] = frozenset()
    """Variants whose jobs carry a header of 55 characters, as traces have it."""


LOGS = Comparison(
    {
        OFF: _off,
        "observer": _observed,
        "job logs": _logs("human"),
        "job logs, json": _logs("json"),
        "job logs, own handler": _records,
        "metrics": _metrics,
        "metrics and job logs": _metrics_and_logs,
        "metrics, otel": _otel,
    },
    ("drain",),
    {"metrics and job logs": 0.9},
)
TRACES = Comparison(
    {
        OFF: _off,
        "headers": _off,
        "no provider": _no_provider,
        "0 % sampled": _sampled(0.0),
        "1 % sampled": _sampled(0.01),
        "100 % sampled": _sampled(1.0),
    },
    ("enqueue", "drain"),
    {"no provider": 0.97, "1 % sampled": 0.9},
    frozenset({"headers"}),
)
BEFORE, NOW = "before", "now"
TREES = Comparison({BEFORE: _as_it_comes, NOW: _as_it_comes}, ("bulk", "drain", "call", "callers"), {NOW: 0.97})
COMPARISONS = {"logs": LOGS, "traces": TRACES, "off": TREES}
