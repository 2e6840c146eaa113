"""The same metrics through OpenTelemetry's API, for programs that have set a meter provider (extra `otel`).

Counters and gauges are observed from the tally when a reader asks, which costs jobs nothing. Of each wait and run a
histogram records one value, which takes 4 to 10 µs in OpenTelemetry's SDK: see docs/guide/metrics.md.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ...core.visible import visible
from ...store.contract import Claimed
from ..observer import Ended, Observer, StoreCall, waited
from .table import CALL, CLAIMED_AT_ONCE, LAG, PROCESS_TABLE, RUN, SETTLED_AT_ONCE, STORE_TABLE, WAIT, Metric
from .tally import MOST_SETS, OTHER, Sample

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

Samples = Callable[[], Iterable[Sample]]
_API = "opentelemetry.metrics"


def meter_provider() -> MeterProvider | None:
    """Return the provider that the program has set; `None` when it has none, and then nothing is imported."""
    if _API not in sys.modules and "OTEL_PYTHON_METER_PROVIDER" not in os.environ:
        return None
    try:
        from opentelemetry.metrics import get_meter_provider
    except ImportError:
        return None
    provider = get_meter_provider()
    return None if type(provider).__module__.startswith(_API) else provider  # the API's own do nothing


class OtelHistograms(Observer):
    """Records each value of the histograms, in the meter of a provider."""

    def __init__(self, meter: Meter) -> None:
        made = {
            metric: meter.create_histogram(
                metric.name, metric.unit, metric.help, explicit_bucket_boundaries_advisory=list(metric.bounds)
            )
            for metric in PROCESS_TABLE
            if metric.kind == "histogram"
        }
        self._wait, self._lag, self._run, self._call = (made[each].record for each in (WAIT, LAG, RUN, CALL))
        self._claimed, self._settled = made[CLAIMED_AT_ONCE].record, made[SETTLED_AT_ONCE].record
        self._other = {"queue": OTHER, "task": OTHER}
        self._labels: dict[tuple[str, str | None], dict[str, str]] = {}

    def _of(self, claimed: Claimed) -> dict[str, str]:
        key = claimed.lease.queue, claimed.task
        found = self._labels.get(key)
        if found is None:
            few = len(self._labels) < MOST_SETS
            found = {"queue": visible(key[0]), "task": visible(key[1] or "")} if few else self._other
            if few:
                self._labels[key] = found
        return found

    def started(self, claimed: Sequence[Claimed]) -> None:
        for job in claimed:
            self._wait(waited(job), self._of(job))
            if job.run_at_ms > job.enqueued_at_ms:
                self._lag(waited(job), self._of(job))

    def settled(self, ended: Sequence[Ended]) -> None:
        for each in ended:
            if each.ran is not None:
                self._run(each.ran, self._of(each.claimed))

    def store_call(self, call: StoreCall) -> None:
        self._call(call.seconds, {"call": call.name})
        if call.name == "settle_and_claim" and call.error is None:
            self._claimed(call.claimed)
            self._settled(call.settled)


def observe(meter: Meter, table: Sequence[Metric], samples: Samples) -> None:
    """Have the meter's readers see these samples: the counters and gauges of a table."""
    for metric in table:
        callback = [_observing(metric, samples)]
        if metric.kind == "counter":
            meter.create_observable_counter(metric.name, callback, metric.unit, metric.help)
        elif metric.kind == "gauge":
            meter.create_observable_gauge(metric.name, callback, metric.unit, metric.help)


def observe_store(samples: Samples) -> bool:
    """Have readers of the provider, if there is one, see the measures of a store; return whether there is one."""
    provider = meter_provider()
    if provider is not None:
        observe(provider.get_meter("holdfast"), STORE_TABLE, samples)
    return provider is not None


def _observing(metric: Metric, samples: Samples) -> Callable[[CallbackOptions], Iterable[Observation]]:
    from opentelemetry.metrics import Observation

    def observed(options: CallbackOptions) -> Iterator[Observation]:
        for sample in samples():
            if sample.metric is metric and isinstance(sample.value, int | float):
                yield Observation(sample.value, dict(zip(metric.labels, sample.labels, strict=True)))

    return observed
