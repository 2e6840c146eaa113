"""What the admin shows of jobs, read through the contract of stores, so that it is the same on each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec

from ....app.app import Holdfast
from ....core.event import Event
from ....core.job import JobRecord
from ....core.state import State
from ....json import form as json_form
from ..configuration import DEFAULT

PAGE = 50
MOST_EVENTS = 200
FIELDS = ("alias", "queue", "state", "task", "tag", "id")
"""The words of the list's address, and of its filters."""


class ListedFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are listed, as the address of the page says."""

    alias: str = DEFAULT
    queue: str = ""
    state: str = ""
    task: str = ""
    tag: str = ""
    id: str = ""
    """How their ids begin."""
    cursor: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> ListedFilter:
        """Return what an address says; a word that is no state means every state."""
        words = {name: given[name].strip() for name in (*FIELDS, "cursor") if given.get(name, "").strip()}
        if words.get("state") not in (None, *State):
            del words["state"]
        return cls(**words)

    def address(self, **changes: str) -> str:
        """Return the query of a page like this one, with something else; it begins at its first page."""
        words = {**msgspec.structs.asdict(self), "cursor": "", **changes}
        return "?" + urlencode({name: value for name, value in words.items() if value})


class ListedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the list."""

    record: JobRecord
    address: str
    """The query of the job's own page."""
    key: str
    """What the list's form sends for it."""


class AdminJobList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the list, and what its filters offer."""

    wanted: ListedFilter
    jobs: list[ListedJob]
    next: str | None
    queues: list[tuple[str, int, str]]
    """Each queue with its number of jobs and the query that lists them."""
    states: list[tuple[str, str]]
    every_state: str


async def job_list(app: Holdfast, wanted: ListedFilter) -> AdminJobList:
    """Return a page of jobs."""
    which: dict[str, Any] = {"state": wanted.state, "task": wanted.task, "tag": wanted.tag, "id_prefix": wanted.id}
    page = await app.jobs(
        queue=wanted.queue or None, limit=PAGE, cursor=wanted.cursor or None,
        **{name: value for name, value in which.items() if value},
    )  # fmt: skip
    queues = await app.queues()
    return AdminJobList(
        wanted=wanted,
        jobs=[listed(wanted.alias, record) for record in page.jobs],
        next=wanted.address(cursor=page.cursor) if page.cursor else None,
        queues=[(each.name, sum(each.counts.values()), wanted.address(queue=each.name)) for each in queues],
        states=[(state.value, wanted.address(state=state.value)) for state in State],
        every_state=wanted.address(state=""),
    )


def listed(alias: str, record: JobRecord) -> ListedJob:
    """Return a job as a row."""
    words = {"alias": alias, "queue": record.queue, "id": record.id, "run": record.run}
    return ListedJob(record=record, address=f"?{urlencode(words)}", key=key_of(record.queue, record.id))


def key_of(queue: str, id: str) -> str:
    """Return how a form names a job."""
    return msgspec.json.encode((queue, id)).decode()


def named(key: str) -> tuple[str, str]:
    """Return the queue and id that a form names; raise `ValueError` for what names none."""
    return msgspec.json.decode(key, type=tuple[str, str])


class AdminJobDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A job on its own page."""

    record: JobRecord
    events: list[Event]
    payload: str
    result: str


async def job_detail(app: Holdfast, queue: str, id: str, run: int | None) -> AdminJobDetail:
    """Return a job with its events; raise `JobMissing` when there is none."""
    record = await app.status(queue, id, run)
    events: list[Event] = []
    async for event in app.queue(queue).events(job_id=id):
        if event.run == record.run:
            events.append(event)
        if len(events) == MOST_EVENTS:
            break
    whole = json_form.job_detail(app, record, events)
    return AdminJobDetail(record=record, events=events, payload=_text(whole["payload"]), result=_text(whole["result"]))


def _text(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
