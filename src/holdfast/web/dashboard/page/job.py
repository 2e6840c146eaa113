"""One job, and its payload, result or checkpoint as a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ....core.job import JobRecord
from ....core.policy import Policy
from ....errors import JobMissing
from ....store.contract import Dependants
from ...problem import Problem
from ...site import Site, site_of
from .. import words
from ..data import ShownData, shown_data, shown_text
from ..draw.attempts import attempt_bar
from ..draw.chart import bar
from ..shell import show
from ..view.job import counters, deeds, runs
from ..view.timeline import timeline

EVENTS_SHOWN = 100


@dataclass(frozen=True)
class JobAddress:
    """Which run of which job a request means."""

    queue: str
    id: str
    run: int | None

    @classmethod
    def of(cls, request: Request) -> JobAddress:
        """Return what an address means; raise when it means none."""
        given = request.query_params
        run = given.get("run", "")
        if not given.get("queue") or not given.get("id") or (run and not run.isdecimal()):
            raise Problem(400, "bad-request", "an address of a job has its queue and id, and a run that is a number")
        return cls(given["queue"], given["id"], int(run) if run else None)


async def job(request: Request) -> Response:
    """Show one job."""
    site, where = site_of(request), JobAddress.of(request)
    recent = site.recent
    record = await site.app.status(where.queue, where.id, where.run)
    whole = "history" in request.query_params
    events, older = await site.history.events(where.queue, where.id, whole=whole)
    line = timeline(events, record.run, recent.now_ms)
    policy, sources, facts = await _policy(site, record)
    shown = events[-EVENTS_SHOWN:][::-1]
    return await show(
        request, "jobs", "job.html", job=record, deeds=deeds(record), completable=not record.outcome.finished,
        events=shown, one_job=True, older=older, line=line, runs=runs(events, record.run),
        pictures=[attempt_bar(each, line, recent.now_ms) for each in line.bars] if line else [],
        worker_names={info.session.id: info.session.name for info in await site.glance.workers()},
        counters=counters(record, policy, sources), policy_facts=facts, headers=site.redactor.headers(record.headers),
        payload=shown_data(site, record, "payload"), result=shown_data(site, record, "result"),
        checkpoint=shown_data(site, record, "checkpoint"), **_error(site, record),
        blockers=await site.app.store.blockers(record.queue, record.id, record.run),
        dependants=await _dependants(site, record), progress_bar=_progress(record),
    )  # fmt: skip


def _progress(record: JobRecord) -> object:
    fraction = record.progress.fraction if record.progress else None
    if fraction is None:
        return ""
    return bar([("active", fraction), ("none", 1 - fraction)], f"progress {words.percent(fraction)}")


def _error(site: Site, record: JobRecord) -> dict[str, Any]:
    error = record.error
    if error is None:
        return {"message": None, "traceback": None, "error_fields": None}
    fields = site.redactor.value(error.fields, record.task, record.queue)
    return {
        "message": shown_text(error.message),
        "traceback": shown_text(error.traceback),
        "error_fields": shown_text(msgspec.json.format(msgspec.json.encode(fields), indent=2).decode())
        if error.fields
        else None,
    }


async def _dependants(site: Site, record: JobRecord) -> Dependants:
    return await site.app.store.dependants(record.queue, record.id, record.run, limit=20)


async def _policy(site: Site, record: JobRecord) -> tuple[Policy, dict[str, str], list[tuple[str, str, str]]]:
    """Return the policy in force, who set each limit, and the rest of it in words."""
    layers = await site.app.store.layers(record.queue)
    task = record.task or ""
    policy = layers.policy(task)
    base = "code" if task in layers.tasks else "default"
    operator = layers.adjusted.get(task, {})
    sources = {
        name: "operator" if name in operator else base for name in (*policy.retry.__struct_fields__, "timeout_ms")
    }
    retry = policy.retry
    longest = words.duration(retry.maximum * 1000)
    backoff = f"{words.duration(retry.initial * 1000)} \u00d7 {retry.multiplier:g}, at most {longest}"
    facts = [
        ("Time-out", words.duration(policy.timeout_ms) if policy.timeout_ms else "none", sources["timeout_ms"]),
        ("Back-off", backoff, sources["initial"]),
    ]
    if policy.on_failure:
        facts.append(("On failure", " / ".join(policy.on_failure), base))
    return policy, sources, facts


async def data(request: Request) -> Response:
    """Return a payload, result or checkpoint as a file."""
    site, where = site_of(request), JobAddress.of(request)
    part = request.query_params.get("part", "")
    if part not in ("payload", "result", "checkpoint"):
        raise Problem(400, "bad-request", f"part={part!r}: payload, result or checkpoint")
    record = await site.app.status(where.queue, where.id, where.run)
    found: ShownData | None = shown_data(site, record, part, most=None)
    if found is None:
        raise JobMissing(f"job {where.queue}/{where.id} has no {part}", queue=where.queue, job_id=where.id)
    return Response(
        found.raw, media_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="{part}.json"'},
    )  # fmt: skip
