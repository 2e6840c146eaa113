"""What is kept of the log, without a store: counts, percentiles, failures, pace, and their bounds."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Event, State
from holdfast.core.job import ErrorRecord, JobRecord
from holdfast.core.transition import TRANSITIONS
from holdfast.telemetry.recent.crowd import Crowd
from holdfast.telemetry.recent.digest import digest
from holdfast.telemetry.recent.failures import MOST_GROUPS, Dead, Failures
from holdfast.telemetry.recent.kind import COUNTED, kind_of
from holdfast.telemetry.recent.options import RecentOptions
from holdfast.telemetry.recent.pace import Pace
from holdfast.telemetry.recent.records import MOST_QUEUES, MOST_TASKS, TrafficRecords
from holdfast.telemetry.recent.spread import bucket_of, spread_of
from holdfast.telemetry.recent.traffic import MINUTES, SECONDS

NOW_S = 1_800_000_000
NOW_MS = NOW_S * 1000


def event(transition: str, *, ago: int = 0, queue: str = "mail", task: str | None = "send", **fields: object) -> Event:
    """An event that was so many seconds ago."""
    made = {
        "position": "", "at_ms": NOW_MS - ago * 1000, "queue": queue, "id": "j", "run": 1, "attempt": 1,
        "transition": transition, "state": State.ACTIVE, "task": task, **fields,
    }  # fmt: skip
    return msgspec.convert(made, Event)


def records_of(*events: Event) -> TrafficRecords:
    records = TrafficRecords()
    records.add(digest(events, NOW_MS), NOW_S)
    return records


def test_every_transition_counts_as_something_or_is_known_not_to() -> None:
    quiet = {"update", "promote", "unblock", "extend", "progress", "expire", "delete"}
    counted = {name for name in TRANSITIONS if kind_of(event(name)) is not None}
    assert counted == set(TRANSITIONS) - quiet


@pytest.mark.parametrize(
    ("transition", "cause", "counts_as"),
    [
        ("release", None, "released"),
        ("release", "stall", "stalled"),
        ("release", "worker", "released"),
        ("reap", None, "stalled"),
        ("fail", "stall", "failed"),
        ("cancel", "retry", "cancelled"),
        ("cancel", "successor", None),
        ("enqueue", "successor", "enqueued"),
    ],
)
def test_a_cause_may_change_what_an_event_counts_as(transition: str, cause: str, counts_as: str | None) -> None:
    kind = kind_of(event(transition, cause=cause))
    assert (None if kind is None else COUNTED[kind]) == counts_as


@given(st.lists(st.integers(0, 40 * 86_400_000), min_size=1, max_size=200))
def test_percentiles_are_near_the_truth(durations: list[int]) -> None:
    buckets: dict[int, int] = {}
    for ms in durations:
        buckets[bucket_of(ms)] = buckets.get(bucket_of(ms), 0) + 1
    spread = spread_of(buckets, max(durations))
    order = sorted(durations)
    assert (spread.count, spread.max_ms) == (len(durations), order[-1])
    for share, found in ((0.5, spread.p50_ms), (0.95, spread.p95_ms)):
        exact = order[max(0, -(-len(order) * int(share * 100) // 100) - 1)]
        assert found is not None
        assert abs(found - exact) <= max(1, 0.13 * exact)


def test_a_duration_below_zero_counts_as_none() -> None:
    assert bucket_of(-5) == bucket_of(0) == 0


def test_nothing_has_no_percentiles() -> None:
    assert spread_of({}, None).p50_ms is None


def test_events_are_added_up_by_queue_and_task() -> None:
    records = records_of(
        event("enqueue", ago=3),
        event("claim", ago=2, wait_ms=100),
        event("complete", ago=1, run_ms=900),
        event("enqueue", queue="other", task=None),
    )
    mail = records.queues["mail"].traffic(NOW_S - 59, NOW_S, 60.0)
    assert (mail.enqueued, mail.started, mail.completed) == (1, 1, 1)
    assert (mail.wait.max_ms, mail.run.max_ms) == (100, 900)
    assert (mail.arrived, mail.ended, mail.rate(mail.ended)) == (1, 1, 1 / 60)
    assert records.all.traffic(NOW_S - 59, NOW_S, 60.0).enqueued == 2
    assert set(records.tasks) == {("mail", "send"), ("other", None)}


def test_a_chart_has_a_column_for_each_second_and_minute() -> None:
    records = records_of(event("claim", ago=2, wait_ms=7), event("claim", ago=200, wait_ms=9))
    seconds = records.all.chart("second", NOW_S, NOW_MS)
    assert len(seconds.started) == SECONDS
    assert (seconds.started[-3], seconds.started[-201], sum(seconds.started)) == (1, 1, 2)
    assert seconds.begin_ms + (SECONDS - 1) * 1000 == NOW_MS
    assert (seconds.wait.max_ms[-3], seconds.wait.max_ms[-1]) == (7, None)
    minutes = records.all.chart("minute", NOW_S, NOW_MS)
    assert (len(minutes.started), sum(minutes.started)) == (MINUTES, 2)
    task = records.tasks["mail", "send"].chart("second", NOW_S, NOW_MS)
    assert task.step_ms == 60_000, "a task has only minutes"
    msgspec.json.encode(seconds)


def test_what_is_too_old_is_left_out_and_what_is_dated_later_counts_as_now() -> None:
    records = records_of(event("claim", ago=MINUTES * 60 + 60), event("claim", ago=-500))
    chart = records.all.chart("minute", NOW_S, NOW_MS)
    assert (sum(chart.started), chart.started[-1]) == (1, 1)


def test_a_long_window_is_counted_by_minutes() -> None:
    records = records_of(event("claim", ago=3000))
    assert records.all.traffic(NOW_S - 3599, NOW_S, 3600.0).started == 1


def test_memory_is_bounded_by_time() -> None:
    records = TrafficRecords()
    for second in range(0, 40_000, 7):
        at = (NOW_S + second) * 1000
        records.add(digest([event("claim", at_ms=at)], at), NOW_S + second)
    for record in (records.all, records.queues["mail"], records.tasks["mail", "send"]):
        for ring in record.rings.values():
            assert len(ring.slots) <= ring.keep + 60


def test_memory_is_bounded_by_names() -> None:
    records = TrafficRecords()
    for number in range(500):
        each = event("claim", queue=f"q{number}", task=f"t{number}", ago=600 - number)
        records.add(digest([each], NOW_MS), NOW_S)
    assert (len(records.queues), len(records.tasks)) == (MOST_QUEUES, MOST_TASKS)
    assert "q499" in records.queues, "the longest unused gave way"
    assert "q0" not in records.queues


def failing(signature: str, *, ago: int = 0, transition: str = "fail", id: str = "j") -> Event:
    return event(transition, ago=ago, id=id, error_type="ValueError", error_signature=signature)


def dead_letter(id: str, message: str) -> JobRecord:
    return JobRecord(
        queue="mail", id=id, run=7, task="send", state=State.FAILED, payload=b"", run_at_ms=0, enqueued_at_ms=0,
        finished_at_ms=NOW_MS - 5_000_000, error=ErrorRecord(type="ValueError", message=message),
    )  # fmt: skip


def test_failures_are_grouped_by_signature() -> None:
    failures = Failures()
    failures.add([failing("a", ago=120, transition="retry"), failing("a", id="k"), failing("b", ago=1)])
    first, second = failures.groups(NOW_MS)
    assert (first.signature, first.failed, first.retried, first.sample.id) == ("a", 1, 1, "k")
    assert (first.first_ms, first.last_ms) == (NOW_MS - 120_000, NOW_MS)
    assert (first.trend[-1], first.trend[-3], sum(first.trend)) == (1, 1, 2)
    assert (first.queues, first.tasks) == (["mail"], ["send"])
    assert second.signature == "b"


def test_the_sample_is_a_job_that_failed_for_good_where_there_is_one() -> None:
    failures = Failures()
    failures.add([failing("a", id="dead"), failing("a", id="tried again", transition="retry")])
    assert failures.groups(NOW_MS)[0].sample.id == "dead"


def test_a_message_is_taken_from_a_job_that_still_has_that_error() -> None:
    failures = Failures()
    job = dead_letter("j", "no such address")
    assert job.error is not None
    failures.add([failing(job.error.signature), failing("another")])
    assert [name for name, _ in failures.without_message()] == [job.error.signature, "another"]
    for name, _ in failures.without_message():
        failures.looked_up(name, job)
    assert {group.message for group in failures.groups(NOW_MS)} == {"no such address", None}
    assert failures.without_message() == [], "each is looked up once"


def test_dead_letters_that_were_there_already_are_groups_too() -> None:
    failures = Failures()
    failures.count_dead({"old": Dead(3, NOW_MS - 9_000_000, dead_letter("d", "gone"))})
    (group,) = failures.groups(NOW_MS)
    assert (group.dead, group.failed, group.message, group.sample.id) == (3, 0, "gone", "d")
    failures.count_dead({})
    assert failures.groups(NOW_MS) == [], "they were deleted or requeued since"


def test_the_number_of_groups_is_bounded() -> None:
    failures = Failures()
    failures.add([failing(f"s{number}", ago=1000 - number) for number in range(500)])
    found = failures.groups(NOW_MS)
    assert len(found) == MOST_GROUPS
    assert found[0].signature == "s499"


def test_old_failures_are_forgotten() -> None:
    failures = Failures()
    failures.add([failing("a", ago=4 * 3600)])
    assert failures.groups(NOW_MS) == []


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_pace_slows_while_nothing_happens_and_while_nobody_reads() -> None:
    clock = Clock()
    pace = Pace(RecentOptions(interval=0.5, idle_interval=2.0, unread_interval=5.0), clock)
    pace.saw(3)
    assert pace.pause(0.01, full=False, failed=False) == 0.5
    for _ in range(10):
        pace.saw(0)
    assert pace.pause(0.01, full=False, failed=False) == 2.0
    clock.now += 100
    assert pace.pause(0.01, full=False, failed=False) == 5.0
    pace.looked_at()
    assert pace.pause(0.01, full=False, failed=False) == 2.0
    assert pace.pause(0.01, full=False, failed=True) > 2.0


def test_a_full_page_is_followed_at_once_but_for_the_share_that_others_have() -> None:
    pace = Pace(RecentOptions(share=0.25))
    assert pace.pause(0.02, full=True, failed=False) == pytest.approx(0.06)


def test_a_burst_is_read_at_so_many_events_a_second_and_no_faster() -> None:
    pace = Pace(RecentOptions(share=0.7, page=1000, most_events=20_000, crowded_events=5_000))
    assert pace.pause(0.01, full=True, failed=False) == pytest.approx(0.04)
    assert pace.pause(0.01, full=True, failed=False, crowded=True) == pytest.approx(0.19)
    assert pace.pause(0.05, full=True, failed=False, crowded=True, cost=0.02) == pytest.approx(0.35), "5 % of a core"
    assert pace.pause(0.07, full=True, failed=False) == pytest.approx(0.03), "the share counts where pages take long"


def test_a_thread_that_has_to_wait_for_its_turn_is_not_alone(tmp_path: Path) -> None:
    kernel = tmp_path / "schedstat"
    kernel.write_text("1000 500 7\n")
    crowd = Crowd(kernel)
    for told, there in (("2000 600 9", False), ("3000 900 9", True), ("4000 900 9", False), ("nonsense", False)):
        kernel.write_text(told)
        assert crowd.is_there() is there
    assert not Crowd(tmp_path / "no such").is_there()


def test_events_are_left_out_only_after_being_behind_for_long() -> None:
    clock = Clock()
    pace = Pace(RecentOptions(patience=10, back=0), clock)
    assert not pace.hopeless(full=True, lag_ms=60_000), "behind, but not for long"
    clock.now += 11
    assert not pace.hopeless(full=True, lag_ms=2_000), "behind for long, but by little"
    assert pace.hopeless(full=True, lag_ms=60_000)
    assert not pace.behind
    pace.hopeless(full=True, lag_ms=60_000)
    assert not pace.hopeless(full=False, lag_ms=60_000)
    assert not pace.behind


def test_the_first_catching_up_may_take_its_pages() -> None:
    clock = Clock()
    pace = Pace(RecentOptions(patience=10, back=10_000, page=1000), clock)
    for _ in range(10):
        clock.now += 5
        assert not pace.hopeless(full=True, lag_ms=3_600_000)


def test_while_somebody_waits_for_each_event_the_log_is_read_often() -> None:
    pace = Pace(RecentOptions(interval=0.5, eager_interval=0.2, idle_interval=2.0))
    pace.saw(3)
    assert pace.pause(0, full=False, failed=False, eager=True) == 0.2
    for _ in range(5):
        pace.saw(0)
    assert pace.pause(0, full=False, failed=False, eager=True) == 0.5
    assert pace.pause(0, full=False, failed=False) == 2.0
