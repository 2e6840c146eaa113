"""Jobs: lists, one of them, its parts and its result."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import Response

from ...core.bound import MOST_COUNTED
from ...core.job import JobRecord
from ...core.state import FINISHED, State
from ...errors import JobError, JobMissing, JobTimeout
from ...json.form import JsonObject
from ..json_bytes import json_bytes
from ..problem import Problem
from ..shown import Part
from .endpoint import Answered, ApiCall, EndpointGroup
from .names import MOST_WAIT, PageSize, RunName, WaitSeconds, ref_of
from .shapes import CountShape, JobList, JobWhole, Json, ResultShape

group = EndpointGroup("jobs")


class MatchForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs, by what they are: everything that is given must match."""

    queue: str | None = None
    state: State | None = None
    task: str | None = None
    key: str | None = None
    tag: str | None = None
    id_prefix: str | None = None
    signature: str | None = None
    """Their last error has this signature; they failed, or will run again."""
    enqueued_after: datetime | None = None
    """They came at this instant or later: ISO 8601 with a zone."""
    enqueued_before: datetime | None = None
    started_after: datetime | None = None
    """Their latest attempt was started at this instant or later."""
    started_before: datetime | None = None
    finished_after: datetime | None = None
    """They were completed, failed for good or were cancelled at this instant or later."""
    finished_before: datetime | None = None

    def given(self) -> dict[str, Any]:
        """Return the filter as `app.jobs` and `app.count` take it."""
        return {name: value for name in MatchForm.__struct_fields__ if (value := getattr(self, name)) is not None}


class FilterForm(MatchForm, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs: everything that is given must match."""

    worker: str | None = None
    """Those that a worker holds, by its name or session."""
    id: tuple[str, ...] = ()
    """These ids; in an address, it may be given again."""
    chain_queue: str | None = None
    chain_id: str | None = None
    chain_run: int | None = None

    def given(self) -> dict[str, Any]:
        """Return the filter as `app.jobs` takes it."""
        found = super().given()
        chain = ref_of(self.chain_queue, self.chain_id, self.chain_run)
        own = {"worker": self.worker, "ids": list(self.id) or None, "chain": chain}
        return found | {name: value for name, value in own.items() if value is not None}


class CountQuery(MatchForm, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs, and how many of them are counted at most."""

    most: Annotated[int, Meta(ge=1, le=MOST_COUNTED)] = MOST_COUNTED


class JobsQuery(FilterForm, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs, and which page of them."""

    limit: PageSize = 50
    cursor: str | None = None


class PartQuery(RunName, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a run."""

    part: Part = "payload"


class ResultQuery(RunName, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run, and for how many seconds to wait for its end."""

    wait: WaitSeconds = 0.0


@group.add("GET", "/jobs", query=JobsQuery, answer=JobList)
async def list_jobs(call: ApiCall[JobsQuery, None]) -> JsonObject:
    """List jobs that match, newest first.

    By `state` alone, or with a queue, what waits is listed by when it was due and what is completed by when it is
    removed, the last first; what is scheduled by when it is due, the next first.
    With `id`, those that are there, in the order given.
    """
    page = await call.app.jobs(limit=call.query.limit, cursor=call.query.cursor, **call.query.given())
    return {"jobs": [call.site.shown.job(job) for job in page.jobs], "cursor": page.cursor}


@group.add("GET", "/jobs/count", query=CountQuery, answer=CountShape)
async def count_jobs(call: ApiCall[CountQuery, None]) -> JsonObject:
    """Count jobs that match, up to `most`; by queue and state alone, whatever their number."""
    found = await call.app.count(most=call.query.most, **call.query.given())
    return {"number": found.number, "more": found.more}


@group.add("GET", "/job", query=RunName, answer=JobWhole)
async def get_job(call: ApiCall[RunName, None]) -> JsonObject:
    """Show one job: payload, result, error, counters and progress.

    A payload, result or checkpoint that is large is null, and stands in `truncated` with its size and its beginning.
    """
    return await call.site.shown.job_whole(await record_of(call))


@group.add("GET", "/job/data", query=PartQuery, answer=Json)
async def get_job_data(call: ApiCall[PartQuery, None]) -> Response:
    """Download a payload, result or checkpoint in full, as JSON."""
    record, part = await record_of(call), call.query.part
    if getattr(record, part) is None:
        raise Problem(404, "no-data", f"{record.queue}/{record.id} has no {part}")
    data = await asyncio.to_thread(lambda: json_bytes(call.site.shown.part(record, part)))
    headers = {"Content-Disposition": f'attachment; filename="{part}-{record.run}.json"'}
    return Response(data, headers=headers, media_type="application/json")


@group.add("GET", "/job/result", query=ResultQuery, answer=ResultShape)
async def get_job_result(call: ApiCall[ResultQuery, None]) -> object:
    """Wait for the end of a run, and of the chain that it began.

    The status is 200 when it has ended, whatever its `state`, and 202 when it has not within `wait` seconds: ask again.
    """
    record = await record_of(call)
    return await ended(call, record.queue, record.id, record.run, call.query.wait)


async def ended(call: ApiCall[Any, Any], queue: str, id: str, run: int, wait: float) -> object:
    """Return how a run ended, waiting for it; or, with 202, how far it is."""
    if wait:
        try:
            await call.site.while_serving(call.app.client.wait(queue, id, run, min(wait, MOST_WAIT)))
        except JobTimeout:
            pass
        except JobMissing:
            raise
        except JobError:
            pass  # it failed or was cancelled, as its record says
    record = await call.app.status(queue, id, run)
    chain = await call.app.chain(queue, id, run) if record.continued else None
    state = record.outcome if chain is None else chain.state
    over = state in FINISHED
    answer = {
        "queue": queue,
        "id": id,
        "run": run,
        "state": state,
        "result": None,
        "error": call.site.shown.error(chain or record) if over else None,
        "progress": msgspec.to_builtins(record.progress),
    }
    if state is State.COMPLETED:
        shown = call.site.shown
        answer["result"] = shown.part(record, "result") if chain is None else shown.chain_result(chain)
    return answer if over else Answered(202, answer)


async def record_of(call: ApiCall[Any, None]) -> JobRecord:
    """Return the run that a request names."""
    query: RunName = call.query
    return await call.app.status(query.queue, query.id, query.run)
