"""The short form of the torture: a few seconds of every store, and the proof that its checks can fail."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]
from torture import checks, record  # noqa: E402
from torture.book import Book, Log  # noqa: E402
from torture.place import STORES  # noqa: E402

from holdfast.core.event import Event  # noqa: E402
from holdfast.core.policy import Counters  # noqa: E402
from holdfast.core.state import State  # noqa: E402

SHORT = ("--seconds", "8", "--every", "0.4", "--lease", "1", "--rate", "200", "--batch", "100")
LONGEST = 350
LEASE = 2.0
SECOND = 1_000_000


@pytest.mark.timeout(400)
@pytest.mark.parametrize("store", STORES)
def test_every_promise_holds_under_torture(store: str) -> None:
    command = [sys.executable, "-m", "torture", "--store", store, *SHORT]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False, timeout=LONGEST)
    assert done.returncode == 0, done.stdout + done.stderr


# --- each check finds what it is there to find


class Scene:
    """A ledger and a log, written by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "ledger").mkdir()
        self._lines: list[str] = []
        self._events: list[Event] = []

    def line(self, letter: str, seconds: float, *words: object) -> None:
        """The ledger has this line."""
        self._lines.append(f"{letter} {round(seconds * SECOND)} {' '.join(map(str, words))}")

    def worker(self, pid: int, *beats: float) -> None:
        """A worker has a session from 0 on, and is heard at these times."""
        self.line("S", 0, pid)
        for beat in beats:
            self.line("H", beat, pid)

    def ran(
        self, queue: str, id: str, began: float, ended: float, *, attempt: int = 1, worker: int = 1, note: str = "-"
    ) -> None:
        """A handler ran from then to then."""
        self.line("B", began, queue, id, 1, attempt, worker, note)
        self.line("E", ended, queue, id, 1, attempt, worker, "ok")

    def event(self, transition: str, state: State | None, queue: str = "work", id: str = "j", **fields: object) -> None:
        """The log has this event."""
        given = {"position": "", "at_ms": 0, "queue": queue, "id": id, "run": 1, "attempt": 1, "task": "slow", **fields}
        self._events.append(Event(transition=transition, state=state, **given))  # type: ignore[arg-type]

    def whole(self, queue: str = "work", id: str = "j", **fields: object) -> None:
        """The log has a run that was enqueued and completed."""
        self.event("enqueue", State.WAITING, queue, id, **fields)
        self.event("complete", State.COMPLETED, queue, id, **fields)

    def found(self, check: checks.Check) -> list[str]:
        """Return what a check says."""
        (self.folder / "ledger" / "one").write_text("".join(f"{line}\n" for line in self._lines))
        with (self.folder / "events").open("wb") as file:
            for event in self._events:
                record.write(file, event)
        return list(check(Book(self.folder, LEASE), Log(self.folder)))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    return Scene(tmp_path)  # type: ignore[return-value]


def test_a_job_that_nobody_knows_of_is_lost(scene: Scene) -> None:
    scene.line("A", 1, "work", "gone", 0, "slow", "-")
    scene.line("A", 1, "work", "j", 7, "slow", "-")
    scene.whole()
    assert [text.partition(" ")[0] for text in scene.found(checks.nothing_acknowledged_is_lost)] == [
        "work/gone",
        "work/j",
    ]


def test_a_run_that_ends_twice_or_never_is_found(scene: Scene) -> None:
    scene.whole()
    scene.event("complete", State.COMPLETED)
    scene.event("enqueue", State.WAITING, id="never")
    assert len(scene.found(checks.every_run_has_one_end)) == 2


def test_a_good_job_that_failed_is_found_and_whose_trouble_it_was(scene: Scene) -> None:
    scene.event("enqueue", State.WAITING)
    scene.event("fail", State.FAILED, cause="failure", error_type="OSError")
    assert len(scene.found(checks.every_run_ends_as_it_should)) == 1
    assert len(scene.found(checks.only_handlers_cost_failures)) == 1


def test_a_completion_that_no_handler_came_to_is_found(scene: Scene) -> None:
    scene.whole()
    scene.line("B", 1, "work", "j", 1, 1, 1, "-")
    assert len(scene.found(checks.what_completed_was_done)) == 1


def test_an_attempt_that_begins_while_another_is_heard_is_found(scene: Scene) -> None:
    scene.worker(1, 1, 2, 3)
    scene.worker(2, 1, 2, 3)
    scene.ran("work", "j", 1, 3)
    scene.ran("work", "j", 2.5, 3, attempt=2, worker=2)
    assert len(scene.found(checks.nobody_overlaps)) == 1


def test_an_attempt_that_begins_when_another_was_unheard_for_a_lease_is_none(scene: Scene) -> None:
    scene.worker(1, 1)
    scene.worker(2, 1, 2, 3, 4, 5)
    scene.ran("work", "j", 1, 9)
    scene.ran("work", "j", 3.5, 4, attempt=2, worker=2)
    assert scene.found(checks.nobody_overlaps) == []


def test_a_heartbeat_of_the_next_session_does_not_speak_for_the_one_before(scene: Scene) -> None:
    scene.worker(1, 1)
    scene.line("S", 2, 1)
    scene.line("H", 2.5, 1)
    scene.worker(2, 1, 2, 3, 4, 5)
    scene.ran("work", "j", 1, 9)
    scene.ran("work", "j", 3.5, 4, attempt=2, worker=2)
    assert scene.found(checks.nobody_overlaps) == []


def test_more_at_once_than_the_limits_allow_is_found(scene: Scene) -> None:
    scene.worker(1, 1, 2, 3)
    for number in range(3):
        scene.ran("keyed", f"j{number}", 1, 2, note="a")
        scene.ran("once", f"j{number}", 1 + number / 10, 2, note="a")
    assert len(scene.found(checks.limits_hold)) == 1
    assert len(scene.found(checks.one_at_a_time_by_dedup_key)) == 2


def test_a_failure_too_many_is_found(scene: Scene) -> None:
    scene.line("A", 1, "work", "j", 0, "flaky", 1)
    scene.whole(task="flaky", counters=Counters(failures=2))
    assert len(scene.found(checks.retries_count_what_they_should)) == 1


def test_what_did_not_follow_is_found(scene: Scene) -> None:
    scene.event("fail", State.FAILED, id="doomed", task="doomed")
    scene.line("A", 1, "chain_a", "c", 0, "first", "-")
    scene.line("P", 1, "chain_a", "c", 1, 1, 1, "c")
    scene.line("P", 1, "join", "x", 1, 1, 1, "a")
    scene.ran("plain", "a", 2, 3)
    scene.line("A", 1, "latest", "l", 1, "latest", 5)
    scene.ran("latest", "l", 2, 3, note="4")
    for check in (
        checks.fail_handlers_run, checks.chains_go_to_their_end, checks.blockers_come_first, checks.the_last_word_runs,
    ):  # fmt: skip
        assert len(scene.found(check)) == 1, check.__name__


def test_what_happened_though_it_should_not_is_found(scene: Scene) -> None:
    scene.line("C", 1, "drop", "d", 1)
    scene.ran("drop", "d", 2, 3)
    scene.whole("drop", "d", task="drop")
    scene.whole("tick", "t")
    scene.whole("tick", "t", run=2)
    scene.line("W", 1, "ask", "q", 1)
    scene.line("W", 1, "ask", "w", 1)
    scene.line("R", 1, "ask", "w", 1, "wrong:7")
    assert len(scene.found(checks.the_cancelled_never_begin)) == 2
    assert len(scene.found(checks.ticks_fire_once)) == 1
    assert len(scene.found(checks.every_waiter_is_answered)) == 2


def test_every_check_is_tried_here() -> None:
    text = Path(__file__).read_text()
    assert [check.__name__ for check in checks.CHECKS if f"checks.{check.__name__}" not in text] == []
