"""The overview: what runs, what waits, what fails, in all queues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ....core.state import State
from ....store.contract import QueueInfo, SessionInfo
from ....telemetry.recent import Chart, Recent, Traffic
from ..draw.chart import Line, Plot, curves, sparkline, stacked
from ..words import duration, rate

POINTS = 60
"""So many points has a small line."""
BARS = 75
"""So many bars has a chart: each stands for several seconds or minutes."""


@dataclass(frozen=True)
class QueueRow:
    """A queue in a list, with what happened to it lately."""

    info: QueueInfo
    traffic: Traffic
    spark: Markup
    """What completed, and what went wrong."""
    waits: Markup
    """How long its jobs waited, at the 95th percentile."""
    oldest_age_ms: int | None

    def count(self, state: str) -> int:
        """Return how many of its jobs are in a state."""
        return self.info.counts.get(state, 0)


@dataclass(frozen=True)
class Totals:
    """All queues together."""

    counts: dict[str, int]
    slots: int
    alive: int
    gone: int
    oldest_age_ms: int | None
    oldest_queue: str | None


def queue_rows(queues: Sequence[QueueInfo], recent: Recent, now_ms: int) -> list[QueueRow]:
    """Return the queues with their traffic of the last minute."""
    return [_row(info, recent, now_ms) for info in sorted(queues, key=lambda each: each.name)]


def _row(info: QueueInfo, recent: Recent, now_ms: int) -> QueueRow:
    chart = recent.chart(info.name, "second")
    return QueueRow(
        info,
        recent.traffic(info.name, 60),
        throughput_spark(chart, f"{info.name}: completed and failed lately"),
        sparkline(_worst(chart.wait.p95_ms, POINTS), "blocked", f"{info.name}: waits lately"),
        None if info.oldest_waiting_ms is None else max(0, now_ms - info.oldest_waiting_ms),
    )


def totals(queues: Sequence[QueueInfo], workers: Sequence[SessionInfo], now_ms: int) -> Totals:
    """Return what all queues and workers have together."""
    counts = {str(state): sum(queue.counts.get(state, 0) for queue in queues) for state in State}
    alive = [info for info in workers if info.alive]
    oldest = min(
        ((queue.oldest_waiting_ms, queue.name) for queue in queues if queue.oldest_waiting_ms is not None), default=None
    )
    return Totals(
        counts, sum(info.session.slots for info in alive), len(alive), len(workers) - len(alive),
        None if oldest is None else max(0, now_ms - oldest[0]), None if oldest is None else oldest[1],
    )  # fmt: skip


def throughput_spark(chart: Chart, label: str) -> Markup:
    """Return how many jobs completed lately, as a small line, and what went wrong as another."""
    wrong = _sums(_sums(chart.failed, chart.retried), chart.stalled)
    return sparkline(
        _rates(chart.completed, POINTS, chart.step_ms), "active", label, _rates(wrong, POINTS, chart.step_ms)
    )


def throughput_plot(chart: Chart, span: str) -> Plot:
    """Return what became of attempts, per second."""
    lines = [
        Line("completed", "completed", _rates(chart.completed, BARS, chart.step_ms)),
        Line("retried", "waiting", _rates(_sums(chart.retried, chart.stalled), BARS, chart.step_ms)),
        Line("failed", "failed", _rates(chart.failed, BARS, chart.step_ms)),
    ]
    return stacked("Throughput", lines, span, rate)


def wait_plot(chart: Chart, span: str) -> Plot:
    """Return how long jobs waited, and how long they ran."""
    lines = [
        Line("wait, median", "scheduled", _worst(chart.wait.p50_ms, BARS)),
        Line("wait, p95", "blocked", _worst(chart.wait.p95_ms, BARS)),
        Line("run, p95", "active", _worst(chart.run.p95_ms, BARS)),
    ]
    return curves("Waits and runs", lines, span, duration)


def _sums(one: Sequence[int], other: Sequence[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]


def _parts(length: int, wanted: int) -> list[slice]:
    """Return the values of each bar, of equal number; the oldest that do not fill one are left out."""
    each = max(1, length // wanted)
    first = length - length // each * each
    return [slice(at, at + each) for at in range(first, length, each)]


def _rates(values: Sequence[int], wanted: int, step_ms: int) -> list[float]:
    """Return values per second."""
    parts = _parts(len(values), wanted)
    return [sum(values[part]) * 1000 / (step_ms * (part.stop - part.start)) for part in parts]


def _worst(values: Sequence[int | None], wanted: int) -> list[float | None]:
    return [
        max((each for each in values[part] if each is not None), default=None) for part in _parts(len(values), wanted)
    ]
