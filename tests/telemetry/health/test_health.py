"""What live and ready mean, from what is known of a worker."""

from __future__ import annotations

import json

import msgspec
import pytest

from holdfast.telemetry.health.health import Facts, live, ready

WELL = Facts(worker="w", moved_ago=0.0, heard_ago=0.1, has_session=True, lease=15.0, wedged_after=60.0)


def test_a_worker_that_works_is_live_and_ready() -> None:
    assert live(WELL).ok
    report = ready(WELL)
    assert report.ok
    assert json.loads(report.json()) == {
        "status": "ok", "reasons": [], "worker": "w", "loop_moved_s": 0.0, "store_heard_s": 0.1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"heard_ago": None, "has_session": False}, "the store has not answered yet"),
        ({"heard_ago": 15.0}, "the store has not answered for 15 s"),
        ({"has_session": False}, "the worker has no session: it was declared dead, and begins anew"),
        ({"is_draining": True}, "the worker drains: it takes no more jobs"),
        ({"has_ended": True}, "the worker has ended"),
        ({"moved_ago": 15.0}, "the event loop has not moved for 15 s"),
        ({"moved_ago": 15.5, "heard_ago": 16.0}, "the event loop has not moved for 16 s"),
    ],
)
def test_a_worker_that_takes_no_jobs_is_not_ready_and_says_why(change: dict[str, object], reason: str) -> None:
    facts = msgspec.structs.replace(WELL, **change)
    assert live(facts).ok, "a restart would not help"
    report = ready(facts)
    assert (report.ok, report.reasons) == (False, (reason,))
    assert json.loads(report.json())["status"] == "unavailable"


def test_a_worker_whose_loop_is_stuck_for_longer_than_it_may_is_not_live() -> None:
    report = live(msgspec.structs.replace(WELL, moved_ago=61.0))
    assert (report.ok, report.reasons) == (False, ("the event loop has not moved for 61 s",))
