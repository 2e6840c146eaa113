"""The tally: what is counted, under which labels, and how many of them there can be."""

from __future__ import annotations

from holdfast.telemetry.metrics.job_counts import CountsByTask
from holdfast.telemetry.metrics.table import COMPLETED, EVENTS, FAILED, STARTED, TABLE, WAIT
from holdfast.telemetry.metrics.tally import Distribution, MetricTally, Sample


def found(tally: MetricTally, metric: object) -> dict[tuple[str, ...], float | Distribution]:
    """Return the values of one metric by their labels."""
    return {sample.labels: sample.value for sample in tally.samples() if sample.metric is metric}


def test_a_value_is_counted_in_the_bucket_whose_bound_it_does_not_pass() -> None:
    histogram = MetricTally().histogram(WAIT, "mail", "send")
    for value in (0.0, 0.001, 0.0011, 5.0, 1e9):
        histogram.add(value)
    counts = dict(zip((*WAIT.bounds, None), histogram.counts, strict=True))
    assert (counts[0.001], counts[0.005], counts[5.0], counts[None]) == (2, 1, 1, 1)
    assert sum(histogram.counts) == 5


def test_past_the_bound_of_label_sets_everything_new_is_other() -> None:
    tally = MetricTally(most_sets=2)
    for name in ("a", "b", "c", "d", "a"):
        tally.cell(EVENTS, name).value += 1
    assert found(tally, EVENTS) == {("a",): 2, ("b",): 1, ("other",): 2}


def test_past_the_bound_of_tasks_their_jobs_are_counted_together() -> None:
    tally = MetricTally()
    jobs = CountsByTask(tally, most=2)
    for number in range(5):
        jobs.of("mail", f"task-{number}").started.value += 1
    assert found(tally, STARTED) == {("mail", "task-0"): 1, ("mail", "task-1"): 1, ("other", "other"): 3}


def test_labels_are_escaped_and_names_that_look_alike_are_counted_together() -> None:
    tally = MetricTally()
    tally.cell(EVENTS, "\x1b[2J").value += 1
    tally.cell(EVENTS, "\\x1b[2J").value += 1
    assert found(tally, EVENTS) == {("\\x1b[2J",): 2}


def test_failures_are_shown_as_none_before_the_first_so_that_a_rate_sees_it() -> None:
    tally = MetricTally()
    CountsByTask(tally).of("mail", None)
    assert found(tally, FAILED) == {("mail", "", "failure"): 0, ("mail", "", "permanent"): 0}
    assert found(tally, COMPLETED) == {("mail", ""): 0}


def test_what_is_asked_for_gauges_is_asked_whenever_somebody_looks() -> None:
    tally, level = MetricTally(), [1]
    tally.sources.append(lambda: [Sample(EVENTS, ("x",), level[0])])
    assert found(tally, EVENTS) == {("x",): 1}
    level[0] = 7
    assert found(tally, EVENTS) == {("x",): 7}


def test_every_metric_has_its_own_name_and_never_an_id_or_a_key_as_a_label() -> None:
    assert len({metric.exposed for metric in TABLE}) == len(TABLE)
    allowed = {"queue", "task", "outcome", "cause", "worker", "version", "store", "state", "event", "call", "reader"}
    assert {label for metric in TABLE for label in metric.labels} == allowed
    assert all(metric.help.endswith((".", "…")) for metric in TABLE)
    assert all((metric.kind == "histogram") == bool(metric.bounds) for metric in TABLE)
