"""What needs attention, judged without a store."""

from __future__ import annotations

import msgspec

from holdfast.core.limit import QueueSettings
from holdfast.store.contract import QueueInfo, Session, SessionInfo
from holdfast.telemetry.recent import Concern, FollowState, LogBreak, Seen, TaskTraffic, Thresholds, Traffic, attention

NOW = 1_800_000_000_000


def queue(
    waiting: int = 0, *, paused: bool = False, workers: int = 1, oldest: int | None = None, name: str = "mail"
) -> QueueInfo:
    return QueueInfo(
        name=name,
        counts={"waiting": waiting},
        settings=QueueSettings(paused=paused),
        workers=workers,
        oldest_waiting_ms=None if oldest is None else NOW - oldest,
    )


def worker(*, alive: bool, active: int = 0) -> SessionInfo:
    session = Session(id="s1", name="w1", host="h", pid=1, queues=("mail",))
    return SessionInfo(
        session=session, started_at_ms=NOW, heard_at_ms=NOW - 30_000, expires_at_ms=NOW, active=active, alive=alive
    )


def judged(**fields: object) -> list[Concern]:
    given = {"now_ms": NOW, "queues": [], "workers": [], **fields}
    return attention(Seen(**given))  # type: ignore[arg-type]


def told(**fields: object) -> list[tuple[str, str, str]]:
    return [(each.severity, each.kind, each.words) for each in judged(**fields)]


def test_a_store_at_ease_needs_no_attention() -> None:
    calm = FollowState(now_ms=NOW, since_ms=NOW)
    traffic = Traffic(seconds=300, completed=100, retried=3)
    assert (
        judged(
            queues=[queue(40, oldest=2000)],
            workers=[worker(alive=True, active=5)],
            tasks=[TaskTraffic(queue="mail", task="send", traffic=traffic)],
            waiting_before={"mail": 35},
            state=calm,
            lake_lag_ms=30_000,
        )
        == []
    )


def test_a_paused_queue_is_told_of_and_weighs_more_when_jobs_wait() -> None:
    assert told(queues=[queue(paused=True)]) == [("note", "paused", "mail is paused")]
    assert told(queues=[queue(1, paused=True, workers=0, oldest=10**7)]) == [
        ("warning", "paused", "mail is paused, and 1 job waits in it")
    ]


def test_waiting_jobs_without_a_worker_are_a_problem() -> None:
    assert told(queues=[queue(12, workers=0)]) == [
        ("problem", "no_worker", "12 jobs wait in mail, and no worker serves it")
    ]
    assert told(queues=[queue(0, workers=0)]) == []


def test_a_job_that_waits_too_long() -> None:
    assert told(queues=[queue(1, oldest=6 * 60_000)]) == [
        ("warning", "oldest", "a job of mail has waited for 6 minutes")
    ]
    assert told(queues=[queue(1, oldest=3 * 3_600_000)]) == [
        ("problem", "oldest", "a job of mail has waited for 3 hours")
    ]
    seen = Seen(now_ms=NOW, queues=[queue(1, oldest=6 * 60_000)], workers=[])
    assert attention(seen, Thresholds(oldest_ms=3_600_000)) == []


def test_a_backlog_that_grows() -> None:
    words = "the backlog of mail grows: 300 jobs wait, 100 five minutes ago"
    assert told(queues=[queue(300)], waiting_before={"mail": 100}) == [("warning", "backlog", words)]
    assert told(queues=[queue(120)], waiting_before={"mail": 100}) == []
    assert told(queues=[queue(300)], waiting_before={"mail": None}) == [], "nobody looked then"


def test_a_dead_worker() -> None:
    (concern,) = judged(workers=[worker(alive=False, active=2)])
    assert (concern.severity, concern.worker) == ("problem", "s1")
    assert concern.words == "worker w1 was last heard 30 seconds ago; it held 2 jobs"
    assert judged(workers=[worker(alive=False)])[0].severity == "warning"


def test_a_failing_task() -> None:
    def of(**counts: int) -> list[tuple[str, str, str]]:
        traffic = Traffic(seconds=300, **counts)
        return told(tasks=[TaskTraffic(queue="mail", task="send", traffic=traffic)])

    assert of(completed=2, failed=3) == [], "too few to judge"
    assert of(completed=90, retried=5) == []
    assert of(completed=70, retried=20, failed=10) == [
        ("warning", "failing_task", "send: 30 of 100 attempts within 5 minutes went wrong, 10 for good")
    ]
    assert of(completed=1, failed=30)[0][0] == "problem"
    plain = TaskTraffic(queue="mail", task=None, traffic=Traffic(seconds=300, failed=20))
    assert judged(tasks=[plain])[0].words.startswith("plain jobs of mail: 20 of 20")


def test_stalls_are_told_of() -> None:
    words = "mail: 2 jobs stalled within 5 minutes: what ran them vanished"
    assert told(queues=[queue()], traffic={"mail": Traffic(seconds=300, stalled=2)}) == [("warning", "stalls", words)]


def test_a_lake_that_is_behind() -> None:
    assert told(lake_lag_ms=15 * 60_000) == [("warning", "lake", "the lake is 15 minutes behind the log")]
    assert told(lake_lag_ms=5 * 3_600_000)[0][0] == "problem"


def test_a_log_that_was_not_read_through_is_told_of_for_a_while() -> None:
    def of(*breaks: LogBreak) -> list[str]:
        return [each.kind for each in judged(state=FollowState(now_ms=NOW, since_ms=NOW, breaks=list(breaks)))]

    assert of(LogBreak(kind="skipped", at_ms=NOW - 1000)) == ["log"]
    assert of(LogBreak(kind="gap", at_ms=NOW - 1000, missed=7)) == ["log"]
    assert of(LogBreak(kind="reset", at_ms=NOW - 900_000)) == []


def test_the_worst_comes_first_and_a_store_that_is_away_is_a_problem() -> None:
    away = FollowState(now_ms=NOW, since_ms=NOW, trouble="StoreError: away")
    found = told(queues=[queue(paused=True)], state=away)
    assert [severity for severity, _, _ in found] == ["problem", "note"]
    assert found[0][2] == "the store cannot be read: StoreError: away"


def test_names_are_shown_as_text_and_linked_as_they_are() -> None:
    name = "ma\x1b[2Jil\u202e"
    (concern,) = judged(queues=[queue(paused=True, name=name)])
    assert concern.words == "ma\\x1b[2Jil\\u202e is paused"
    assert concern.queue == name
    msgspec.json.encode(concern)
