"""Jobs that are asked for, as groups of `JobArguments`; and the answers to them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import get_args

import msgspec

from ....core.job import ErrorRecord
from ....core.state import State
from ...contract import KEEP, Answer, Conflict, NewJob, Status
from ..keys import long, short
from ..record.job import LETTERS
from .entry import Flat, ServerCall
from .produce import AnswerFields, EnqueueAlikeCall, EnqueueCall, EnqueueReply

_json = msgspec.json.encode
_STATUSES: dict[bytes, Status] = {status.encode(): status for status in get_args(Status)}


def conflict_argument(conflict: Conflict) -> bytes:
    """Return what happens to an id that exists, for Lua."""
    if conflict is KEEP:
        return b"{}"
    fields = msgspec.structs.asdict(conflict)
    return _json({**fields, "reset_counts": conflict.resets})


def spec(job: NewJob) -> dict[str, object]:
    """Return what is unusual about a job, for Lua."""
    found: dict[str, object] = {
        "run_at": job.run_at_ms,
        "delay": job.delay_ms,
        "priority": job.priority or None,
        "key": job.key,
        "envelope": job.envelope.decode() if job.envelope else None,
        "overrides": _json(job.overrides).decode() if job.overrides else None,
        "ttl": job.result_ttl_ms,
        "watcher": job.watcher,
    }
    if job.dedup is not None:
        dedup: dict[str, object] = {"key": job.dedup.key, "scope": job.dedup.scope, "exclude": job.dedup.exclude}
        found["dedup"] = dedup if job.dedup.window_ms is None else {**dedup, "window": job.dedup.window_ms}
    if job.blockers:
        found["blockers"] = [(ref.queue, ref.id, ref.run) for ref in job.blockers]
        found["policy"] = job.on_blocker_failed
    return {name: value for name, value in found.items() if value is not None}


_usual = attrgetter("run_at_ms", "delay_ms", "priority", "overrides", "dedup", "blockers")
_NOTHING_UNUSUAL = _usual(NewJob(id="", task=None, payload=b""))


def _spec(job: NewJob) -> bytes:
    """Return what is unusual about a job. A key or an envelope alone is no JSON, which the server need not decode."""
    key, envelope, watcher = job.key, job.envelope, job.watcher
    if _usual(job) != _NOTHING_UNUSUAL:
        return _json(spec(job))
    if key is None and not envelope:
        return _plain(watcher, job.result_ttl_ms)
    if job.result_ttl_ms is not None:
        return _json(spec(job))
    if key is not None:
        return b"@" + key.encode() if not envelope and watcher is None else _json({"keyed": True, **spec(job)})
    return b"=" + envelope if envelope and watcher is None else _json({"plain": True, **spec(job)})


@lru_cache(maxsize=100)
def _plain(watcher: str | None, ttl_ms: int | None) -> bytes:
    if watcher is None and ttl_ms is None:
        return b""
    options = {"watcher": watcher, "ttl": ttl_ms}
    return _json({"plain": True, **{name: value for name, value in options.items() if value is not None}})


_OWN = {"id", "payload", "fresh"}
_common = attrgetter(*(name for name in NewJob.__struct_fields__ if name not in _OWN))
"""What jobs have in common that one caller enqueues together."""


def enqueue_call(
    queue: str, jobs: Sequence[NewJob], conflict: Conflict, request: str, history: int
) -> tuple[ServerCall[EnqueueReply], Flat]:
    """Return the call by which jobs are taken in, and what follows its arguments."""
    first, word, count = jobs[0], conflict_argument(conflict), len(jobs)
    if count > 1 and (found := [*map(_common, jobs)]).count(found[0]) < count:
        call = EnqueueCall(queue=queue, request=request, history=history, conflict=word, count=count)
        return call, job_arguments(jobs)
    alike = EnqueueAlikeCall(
        queue=queue, request=request, history=history, conflict=word, count=count, task=first.task, spec=_spec(first)
    )
    return alike, [part for job in jobs for part in (short(job.id), job.payload)]


def job_arguments(jobs: Sequence[NewJob]) -> Flat:
    """Return jobs as arguments, `JobArguments` for each."""
    return [part for job in jobs for part in (short(job.id), job.task or "", job.payload, _spec(job))]


def answers_to(jobs: Sequence[NewJob], reply: EnqueueReply) -> list[Answer]:
    """Return the answer to each job."""
    if reply.letters is not None and reply.first is not None:
        first, letters = reply.first, reply.letters.decode()
        return [
            Answer(status="queued", id=job.id, run=first + index, state=LETTERS[letters[index]])
            for index, job in enumerate(jobs)
        ]
    return [_answer(job, AnswerFields._make(each)) for job, each in zip(jobs, reply.answers or (), strict=True)]


def _answer(job: NewJob, found: AnswerFields) -> Answer:
    id, status = long(found.id), _STATUSES[found.status]
    if job.fresh and status == "duplicate" and id == job.id:
        status = "queued"  # the id was made for this call: its first try was done, and only the reply was lost
    return Answer(
        status=status,
        id=id,
        run=found.run,
        state=State(found.state.decode()),
        result=found.result,
        error=_error(found.error) if found.error else None,
    )


def _error(text: bytes) -> ErrorRecord:
    try:
        return msgspec.json.decode(text, type=ErrorRecord)
    except msgspec.MsgspecError as error:
        return ErrorRecord(type="CorruptRecord", kind="corrupt", message=str(error))
