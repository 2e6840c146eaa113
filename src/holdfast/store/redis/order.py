"""Jobs that are asked for, as the arguments of a call; and what the server answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec

from ...core.job import ErrorRecord
from ...core.state import State
from ..contract import KEEP, Answer, Conflict, NewJob
from . import record
from .keys import long, short

_json = msgspec.json.encode


def rule(conflict: Conflict) -> bytes:
    """Return what happens to an id that exists, for Lua."""
    if conflict is KEEP:
        return b"{}"
    fields = msgspec.structs.asdict(conflict)
    return _json({**fields, "reset_counts": conflict.resets})


def spec(job: NewJob) -> dict[str, Any]:
    """Return what is unusual about a job, for Lua."""
    found: dict[str, Any] = {
        "run_at": job.run_at_ms,
        "delay": job.delay_ms,
        "priority": job.priority or None,
        "key": job.key,
        "headers": _json(job.headers).decode() if job.headers else None,
        "overrides": _json(job.overrides).decode() if job.overrides else None,
        "ttl": job.result_ttl_ms,
        "watcher": job.watcher,
    }
    if job.dedup is not None:
        dedup = {"key": job.dedup.key, "scope": job.dedup.scope, "exclude": job.dedup.exclude}
        found["dedup"] = dedup if job.dedup.window_ms is None else {**dedup, "window": job.dedup.window_ms}
    if job.blockers:
        found["blockers"] = [(ref.queue, ref.id, ref.run) for ref in job.blockers]
        found["policy"] = job.on_blocker_failed
    return {name: value for name, value in found.items() if value is not None}


_PLAIN = NewJob(id="", task=None, payload=b"")
_usual = attrgetter("run_at_ms", "delay_ms", "priority", "key", "headers", "overrides", "dedup", "blockers")
_NOTHING_UNUSUAL = _usual(_PLAIN)


def _spec(job: NewJob) -> bytes:
    if _usual(job) == _NOTHING_UNUSUAL:
        return _plain(job.watcher, job.result_ttl_ms)
    return _json(spec(job))


@lru_cache(maxsize=100)
def _plain(watcher: str | None, ttl_ms: int | None) -> bytes:
    if watcher is None and ttl_ms is None:
        return b""
    said = {"watcher": watcher, "ttl": ttl_ms}
    return _json({"plain": True, **{name: value for name, value in said.items() if value is not None}})


def asked(jobs: Sequence[NewJob]) -> list[Any]:
    """Return jobs as arguments: four for each."""
    return [part for job in jobs for part in (short(job.id), job.task or "", job.payload, _spec(job))]


def taken_at_once(reply: list[Any]) -> bool:
    """True when a worker that had nothing to do was given the new jobs."""
    return len(reply) == 4 and bool(reply[0] == b"new")


def answers_to(jobs: Sequence[NewJob], reply: list[Any]) -> list[Answer]:
    """Return the answer to each job."""
    if reply[0] == b"new":
        first, letters = reply[1], reply[2].decode()
        return [
            Answer(status="queued", id=job.id, run=first + index, state=record.LETTERS[letters[index]])
            for index, job in enumerate(jobs)
        ]
    return [_answer(job, each) for job, each in zip(jobs, reply[1:], strict=True)]


def _answer(job: NewJob, reply: list[Any]) -> Answer:
    word, id, run, state, result, error = reply
    status, id = word.decode(), long(id)
    if job.fresh and status == "duplicate" and id == job.id:
        status = "queued"  # the id was made for this call: its first try was done, and only the reply was lost
    return Answer(
        status=status,
        id=id,
        run=run,
        state=State(state.decode()),
        result=result,
        error=_error(error) if error else None,
    )


def _error(text: bytes) -> ErrorRecord:
    try:
        return msgspec.json.decode(text, type=ErrorRecord)
    except msgspec.MsgspecError as error:
        return ErrorRecord(type="CorruptRecord", kind="corrupt", message=str(error))
