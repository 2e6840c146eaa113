"""Many jobs at once: how many there are, whether that is meant, and how far it is.

What was selected by hand is done in the request itself; what a filter chooses, in the background (`web.operations`).
"""

from __future__ import annotations

import asyncio
from typing import Any, cast
from urllib.parse import parse_qs

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ....core.job import JobRecord
from ....core.state import State
from ....store.contract import Filter, JobCount
from ...address import href, root_of
from ...operations import MOST_MATCHED, Action, Order
from ...problem import Problem
from ...site import Site, caller_of, site_of
from ..actions import ACTIONS
from ..draw.chart import bar
from ..shell import Note, go_back, show
from ..view.jobs import DEEDS, JobQuery

LABELS = {"promote": "Run now", "cancel": "Cancel", "requeue": "Requeue", "delete": "Delete"}
EXPLAINED = {
    "promote": "They may be claimed now, and not only when their time has come.",
    "cancel": "Those that wait will not run; those that run are told to stop.",
    "requeue": "They run anew, each as its next run, with the same payload and fresh counters.",
    "delete": "They are gone, with their payloads, results and errors. This cannot be undone.",
}
DONE = {
    "promote": "may run now",
    "cancel": "are cancelled or told to stop",
    "requeue": "run again",
    "delete": "are deleted",
}
SAMPLE = 10
MOST_PICKED = 500
ASKS_FROM = 100
"""From so many jobs on, their number must be typed before they are cancelled or deleted."""
Fields = dict[str, list[str]]


async def confirm(request: Request) -> Response:
    """Say how many jobs an action would take, and show some of them; nothing is done yet."""
    site, fields = site_of(request), await _fields(request)
    deed, query = _deed(fields), _query(fields)
    picked = [] if fields.get("all") else fields.get("job", [])
    if not picked and not fields.get("all"):
        raise Problem(400, "bad-request", "no job was selected: select some, or tick “all that match”")
    found, sample = await _counted(site, deed, query, picked)
    return await show(
        request, "jobs", "bulk.html", still=True, deed_name=deed, label=LABELS[deed], explain=EXPLAINED[deed],
        query=query, picked=picked, found=found, sample=sample, back_to=_back(request, fields),
        asks=deed in ("delete", "cancel") and found.number >= ASKS_FROM,
    )  # fmt: skip


async def run(request: Request) -> Response:
    """Begin what was confirmed, and show how far it is."""
    site, fields = site_of(request), await _fields(request)
    deed, query = _deed(fields), _query(fields)
    if fields.get("number") and fields.get("sure") != fields["number"]:
        raise Problem(400, "bad-request", "the number that was typed is another: nothing was done")
    picked = _names(fields.get("job", []))
    if picked:
        return await _picked(request, site, deed, picked, _back(request, fields))
    which = _allowed(query, deed)
    count = await site.app.store.count(which)
    identity = caller_of(request)
    order = Order(
        action=deed, filter=_keywords(query, which), shown=query.parameters(), by=identity.name, running="signal",
        limit=MOST_MATCHED if count.more else max(1, count.number),
    )  # fmt: skip
    began = site.operations.start(order)
    back = _back(request, fields)
    return RedirectResponse(href(root_of(request), "/operation", key=began.id, total=count.number, back=back), 303)


async def operation(request: Request) -> Response:
    """Show how far an operation is."""
    site, given = site_of(request), request.query_params
    found = site.operations.get(given.get("key", ""))
    total = max(int(given["total"]) if given.get("total", "").isdecimal() else 0, found.matched)
    over = found.state != "running"
    rest = 0 if over else max(0, total - found.done - found.refused)
    picture = bar([("completed", found.done), ("cancelled", found.refused), ("none", rest)], "how far it is")
    if over:
        site.glance.forget()
    deed = found.order.action
    return await show(
        request, "jobs", "operation.html", label=f"{LABELS[deed]}: {total:,} jobs", done=found.done, total=total,
        left=found.refused, over=over, error=found.error, bar=picture, back_to=_inside(request, given.get("back", "")),
        ending={"done": "All done.", "stopped": "It was stopped.", "failed": "It ended early."}.get(found.state, ""),
    )  # fmt: skip


async def _picked(request: Request, site: Site, deed: Action, jobs: list[tuple[str, str]], back: str) -> Response:
    """Do it to the jobs that were selected by hand."""
    action = ACTIONS[f"job-{deed}"]
    notes = await asyncio.gather(
        *(action(site.app, {"queue": queue, "id": id, "running": "signal"}) for queue, id in jobs)
    )
    site.glance.forget()
    wrong = [note for note in notes if note.level == "bad"]
    text = f"{len(jobs) - len(wrong)} jobs {DONE[deed]}"
    return go_back(request, back, Note(f"{text}; {len(wrong)} were left: {wrong[0].text}" if wrong else text,
                                       "warn" if wrong else "good"))  # fmt: skip


async def _fields(request: Request) -> Fields:
    text = (await request.body()).decode("utf-8", "replace")
    return parse_qs(text, keep_blank_values=False, max_num_fields=2 * MOST_PICKED)


def _deed(fields: Fields) -> Action:
    deed = (fields.get("deed") or [""])[0]
    if deed not in LABELS:
        raise Problem(400, "bad-request", f"{deed!r} is no action; known are {', '.join(LABELS)}")
    return cast(Action, deed)


def _query(fields: Fields) -> JobQuery:
    return JobQuery.of({name: values[-1] for name, values in fields.items()})


def _back(request: Request, fields: Fields) -> str:
    return _inside(request, (fields.get("back") or [""])[0])


def _inside(request: Request, back: str) -> str:
    """Return an address of this application, and never one of another site."""
    root = root_of(request)
    inside = back.startswith(f"{root}/") and not back.startswith("//") and "\\" not in back and back.isprintable()
    return back if inside else f"{root}/jobs"


def _names(values: list[str]) -> list[tuple[str, str]]:
    try:
        found = [msgspec.json.decode(value, type=tuple[str, str, int]) for value in values[:MOST_PICKED]]
    except msgspec.DecodeError:
        raise Problem(400, "bad-request", "the selection cannot be read: load the page again") from None
    return [(queue, id) for queue, id, _ in found]


async def _counted(site: Site, deed: str, query: JobQuery, picked: list[str]) -> tuple[JobCount, list[JobRecord]]:
    if picked:
        by_queue: dict[str, list[str]] = {}
        for queue, id in _names(picked):
            by_queue.setdefault(queue, []).append(id)
        looked = [job for queue, ids in by_queue.items() for job in await site.app.client.look.look_up(ids, queue)]
        jobs = [job for job in looked if job.state in DEEDS[deed]]
        return JobCount(number=len(jobs)), jobs[:SAMPLE]
    which = _allowed(query, deed)
    page = await site.app.client.look.jobs(which, SAMPLE)
    return await site.app.store.count(which), page.jobs


def _allowed(query: JobQuery, deed: str) -> Filter:
    """Return the filter of a query, narrowed to the states that an action allows."""
    which = query.filter()
    states = tuple(state for state in which.states or tuple(State) if state in DEEDS[deed])
    if not states:
        raise Problem(400, "bad-request", f"no job that is {query.state} can be treated so")
    return msgspec.structs.replace(which, states=states if len(states) < len(State) else ())


def _keywords(query: JobQuery, which: Filter) -> dict[str, Any]:
    """Return the filter of an operation; one state is asked for, of several each job answers for itself."""
    found = query.keywords()
    return {**found, "state": str(which.states[0])} if len(which.states) == 1 else found
