"""The metrics of this process: one tally for all its workers and producers, switched on where somebody will look."""

from __future__ import annotations

import functools
import sys

from ...store.contract import Store
from ..observer import Observer
from .calls import CallCounts
from .exposition import exposition
from .job_counts import CountsByTask
from .otel import OtelHistograms, meter_provider, observe
from .produce import counted
from .table import PROCESS_TABLE
from .tally import MetricTally
from .worker import WorkerMetrics


class ProcessMetrics:
    """The tally of a process, and who adds to it."""

    def __init__(self) -> None:
        self.tally = MetricTally()
        self._jobs, self._calls = CountsByTask(self.tally), CallCounts(self.tally)
        self._observer = WorkerMetrics(self.tally, self._jobs, self._calls, sys.modules["holdfast"].__version__)
        self._otel: OtelHistograms | None = None

    def observers(self) -> list[Observer]:
        """Return what a worker tells: the tally, and OpenTelemetry where the program has set a provider."""
        self.note_provider()
        return [self._observer] if self._otel is None else [self._observer, self._otel]

    def note_provider(self) -> None:
        """Show the tally to OpenTelemetry's meter provider, once there is one."""
        provider = meter_provider() if self._otel is None else None
        if provider is not None:
            meter = provider.get_meter("holdfast")
            observe(meter, PROCESS_TABLE, self.tally.samples)
            self._otel = OtelHistograms(meter)

    def counted(self, store: Store) -> Store:
        """Return the store, as producers of this process use it."""
        self.note_provider()
        return counted(store, self._jobs, self._calls, self._otel)


@functools.cache
def of_this_process() -> ProcessMetrics:
    """Return the metrics of this process, made when they are first wanted."""
    return ProcessMetrics()


def are_wanted(said: bool | None) -> bool:
    """Return whether to count: as somebody said, or else when OpenTelemetry has a meter provider."""
    return meter_provider() is not None if said is None else said


def process_metrics(*, open: bool = False) -> str:
    """Return what this process counted so far, as text for Prometheus; `open`: as OpenMetrics.

    Workers count when they have a `metrics_port`, producers when their app has `metrics=True`; both when
    OpenTelemetry has a meter provider.
    """
    return exposition(of_this_process().tally.samples(), open=open)
