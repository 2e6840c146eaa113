"""Enqueue, one job or many."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ...app.bulk import Call, Chunker, EnqueueCounts
from ...core.bound import ASKED_AT_ONCE
from ...errors import ConfigError, PayloadError
from ...json.form import JsonObject
from ...store.contract import Answer
from ...telemetry import traces
from ..problem import Problem, problem_of
from .endpoint import Answered, ApiCall, EndpointGroup
from .jobs import ended
from .names import WaitSeconds
from .new_job import NewJobForm, call_of
from .shapes import BulkAnswer, EnqueueAnswer

group = EndpointGroup("jobs")
MOST_JOBS = 10_000


class EnqueueQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether to wait for the result, and for how many seconds."""

    wait: WaitSeconds | None = None


class BulkForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs of whatever tasks and queues."""

    jobs: Annotated[list[NewJobForm], Meta(min_length=1, max_length=MOST_JOBS)]


@group.add("POST", "/jobs", query=EnqueueQuery, body=NewJobForm, answer=EnqueueAnswer)
async def enqueue_job(call: ApiCall[EnqueueQuery, NewJobForm]) -> object:
    """Enqueue one job: a task by name, or a plain payload for a queue.

    With `wait`, the answer also has `result`, `error` and `progress`, as `GET /job/result` does; the status is 202
    while the job has not ended.
    """
    made = await call_of(call.site, call.body)
    with traces.attached(call.request.headers):
        (answer,) = await call.app.client.enqueue(made.queue, [made.job], made.options.conflict)
    taken = _answer(made.queue, answer)
    if answer.status == "refused":
        raise Problem(409, "refused", f"{made.queue}/{answer.id} is a later job of a chain, which cannot be updated")
    if call.query.wait is None:
        return taken
    found = await ended(call, made.queue, answer.id, answer.run, call.query.wait)
    if isinstance(found, Answered):
        return Answered(found.status, {**taken, **_fields(found.body)})
    return {**taken, **_fields(found)}


@group.add("POST", "/jobs/bulk", body=BulkForm, answer=BulkAnswer)
async def enqueue_jobs(call: ApiCall[Any, BulkForm]) -> JsonObject:
    """Enqueue many jobs. All of them are checked first: one that is wrong keeps all out."""
    made = [await _numbered(call, form, number) for number, form in enumerate(call.body.jobs)]
    answers, counts = [], EnqueueCounts()
    with traces.attached(call.request.headers):
        sending = traces.sending(len(made))
        with traces.sent(sending):
            for (queue, conflict), jobs in Chunker(ASKED_AT_ONCE).each(made):
                found = await call.app.client.enqueue(queue, jobs, conflict, sending)
                counts.add(found)
                answers += [_answer(queue, each) for each in found]
            if sending is not None:
                sending.end()
    return {"jobs": answers, "counts": msgspec.structs.asdict(counts)}


async def _numbered(call: ApiCall[Any, Any], form: NewJobForm, number: int) -> Call[object]:
    try:
        return await call_of(call.site, form)
    except (ConfigError, PayloadError, Problem) as error:
        problem = problem_of(error)
        numbered = Problem(problem.status, problem.kind, f"jobs[{number}]: {problem.detail}")
        numbered.extra = {**problem.extra, "index": number}
        raise numbered from error


def _answer(queue: str, answer: Answer) -> JsonObject:
    return {"status": answer.status, "queue": queue, "id": answer.id, "run": answer.run, "state": answer.state}


def _fields(found: object) -> JsonObject:
    assert isinstance(found, dict)
    return found
