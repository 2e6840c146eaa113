"""Lines of a log: what jobs carry begins no line, steers no terminal, and is the same value in JSON."""

from __future__ import annotations

import json
import logging
import sys
import unicodedata
from typing import Any

import pytest

from holdfast.core.envelope import Envelope
from holdfast.core.policy import Counters
from holdfast.core.state import State
from holdfast.core.transition import Reply
from holdfast.log import LineFormatter
from holdfast.store.contract import Claimed, Complete, Lease, Settled
from holdfast.telemetry.lines import HumanFormat, JobLine, JsonFormat, LineFormat, format_of, worker_name
from holdfast.telemetry.observer import Ended, waited

TURNS = "\u061c\u200e\u200f" + "".join(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))
HOSTILE = (
    'x"\\' + "".join(map(chr, (*range(32), *range(0x7F, 0xA0)))) + "\u2028\u2029\u200b\ufeff" + TURNS + "\U000e0041"
)
FORGED = f"{HOSTILE}\n2026-01-01 00:00:00,000 INFO holdfast: job_completed: forged"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def claimed(text: str = "a", task: str | None = "do", **headers: str) -> Claimed:
    return Claimed(
        lease=Lease(text, text, 7, 2), task=task and (task if text == "a" else text), payload=b"", priority=0, key=None,
        run_at_ms=0, enqueued_at_ms=0, claimed_at_ms=1000, counters=Counters(), envelope=Envelope(headers=headers),
    )  # fmt: skip


def completed(form: LineFormat, job: Claimed, ran: float, worker: str = '""') -> str:
    ended = Ended(job, ran, None, Complete(job.lease, b""), Settled(Reply.OK, State.COMPLETED))
    (line,) = form.turn("holdfast", worker, [ended], lambda each: "other")
    return line


def unsafe(text: str) -> set[str]:
    return {
        each
        for each in text
        if each not in "\n\t" and (unicodedata.category(each) in ("Cc", "Zl", "Zp") or each in TURNS)
    }


def record(message: str = "hello", **more: Any) -> logging.LogRecord:
    made = logging.LogRecord("a.library", logging.INFO, "", 0, message, (), None)
    made.__dict__.update(more)
    return made


def raised(text: str) -> Any:
    try:
        raise ValueError(text)
    except ValueError:
        return sys.exc_info()


LINES = {
    "completed": lambda form: completed(form, claimed(FORGED), 2.0, worker_name(FORGED)),
    "failed": lambda form: form.job(
        "holdfast",
        worker_name(FORGED),
        JobLine(40, "job_failed", claimed(FORGED), 1.0, 2.0, FORGED, FORGED, FORGED, 1.5, "failure", FORGED),
    ),
    "text": lambda form: form.text(30, "holdfast", "note", FORGED),
    "record": lambda form: form.format(record(FORGED, job_id=FORGED, queue=FORGED)) + "\n",
    "traceback": lambda form: form.format(record(FORGED, exc_info=raised(FORGED))) + "\n",
    "stack": lambda form: form.format(record(FORGED, stack_info=FORGED)) + "\n",
    "logger": lambda form: form.format(record(FORGED, name=FORGED)) + "\n",
}  # fmt: skip


@pytest.mark.parametrize("form", ["human", "json"])
@pytest.mark.parametrize("made", LINES)
def test_hostile_text_begins_no_line_and_steers_no_terminal(form: Any, made: str) -> None:
    told = LINES[made](format_of(form))
    assert unsafe(told) == set()
    first, *others = told.removesuffix("\n").split("\n")
    assert all(line.startswith("  ") for line in others)
    if form == "json":
        assert not others
        assert isinstance(json.loads(first), dict)


def test_the_values_in_json_are_those_of_the_job() -> None:
    form = JsonFormat()
    for told in (LINES["completed"](form), LINES["failed"](form)):
        found = json.loads(told)
        assert (found["job_id"], found["queue"], found["task"], found["worker"]) == (FORGED,) * 4
        assert (found["run"], found["attempt"], found["waited"], found["ran"]) == (7, 2, 1.0, 2.0)
    assert found["traceback"] == FORGED


def test_a_completed_job_has_the_same_fields_by_the_fast_way_as_by_the_slow_one() -> None:
    form, done = JsonFormat(), claimed(traceparent=f"00-{TRACE}-00f067aa0ba902b7-01")
    fast = json.loads(completed(form, done, 0.5, worker_name("w")))
    slow = json.loads(form.job("holdfast", worker_name("w"), JobLine(20, "job_completed", done, waited(done), 0.5)))
    assert fast.pop("message") == "job_completed: do a/a"
    assert slow.pop("message").startswith("job_completed: do a/a run 7 attempt 2")
    assert fast.pop("time") <= slow.pop("time")
    assert fast == slow
    assert fast["trace_id"] == TRACE


@pytest.mark.parametrize("task", ["do", None])
def test_a_completed_job_has_the_same_words_by_the_fast_way_as_by_the_slow_one(task: str | None) -> None:
    form, done = HumanFormat(), claimed(task=task)
    fast = completed(form, done, 0.5)
    assert fast.endswith(f" INFO holdfast: {JobLine(20, 'job_completed', done, waited(done), 0.5).text()}\n")


def test_lines_of_people_name_the_job_of_a_handler() -> None:
    assert HumanFormat().format(record(job_id="a", queue="mail")).endswith("INFO a.library: hello [mail/a]")
    assert HumanFormat().format(record()).endswith("INFO a.library: hello")


def test_json_has_what_a_program_gives_and_whatever_it_is() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise LookupError

    given = {"n": 1, "odd": Odd(), "keys": {(1, 2): 3}, "half": "\ud800", "level": "mine", "many": [1, {2}]}
    found = json.loads(JsonFormat().format(record(**given)))
    assert (found["n"], found["odd"], found["level"]) == (1, "<Odd>", "info")
    assert found["half"] == "\\ud800"
    assert (found["time"][-1], found["logger"], found["message"]) == ("Z", "a.library", "hello")


def test_an_error_is_in_fields() -> None:
    found = json.loads(JsonFormat().format(record(exc_info=raised("broken"))))
    assert (found["error_type"], found["error_message"]) == ("ValueError", "broken")
    assert found["traceback"].startswith("Traceback")


def test_names_of_tasks_are_kept_but_not_without_end() -> None:
    for form in (HumanFormat(), JsonFormat()):
        for number in range(3000):
            completed(form, claimed(f"q{number}"), 0.0)
        assert len(form._names) <= 1000


def test_the_format_of_other_commands_is_safe_too() -> None:
    told = LineFormatter("%(name)s: %(message)s").format(record(FORGED, exc_info=raised(FORGED)))
    assert unsafe(told) == set()
    assert all(line.startswith("  ") for line in told.split("\n")[1:])
