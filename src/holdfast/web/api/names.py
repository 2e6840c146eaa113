"""Which job, queue or schedule a request is about.

Names and ids stand in the query, not in the path: an id may hold slashes, dots and anything else, which proxies and
clients rewrite in paths, and leave alone in a query.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from ...core.bound import MOST_RUN
from ...core.chain import ChainRef
from ...core.transition import Reply
from ..problem import Problem

RunNumber = Annotated[int, Meta(ge=1, le=MOST_RUN)]
PageSize = Annotated[int, Meta(ge=1, le=1000)]
MOST_WAIT = 60.0
WaitSeconds = Annotated[float, Meta(ge=0, le=MOST_WAIT)]
"""How long a request may wait: proxies cut longer ones, and a caller asks again."""


class JobName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The run that answers for an id."""

    queue: str
    id: str


class RunName(JobName, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run of a job; by default the one that answers for the id."""

    run: RunNumber | None = None


class QueueName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A queue."""

    name: str
    create: bool = False
    """Also when the store does not know the queue yet: without it, a mistyped name is an error."""


class ScheduleName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule; its queue where several have one of that name."""

    name: str
    queue: str | None = None


def ref_of(queue: str | None, id: str | None, run: int | None) -> ChainRef | None:
    """Return the chain that three parameters name together, or none."""
    if queue is None and id is None and run is None:
        return None
    if queue is None or id is None or run is None:
        raise Problem(400, "bad-parameter", "a chain is named by chain_queue, chain_id and chain_run together")
    return ChainRef(queue, id, run)


def done(reply: Reply, queue: str, id: str, refusal: str) -> dict[str, object]:
    """Return that a transition was made, or raise the problem that says why not."""
    if reply is Reply.MISSING:
        raise Problem(404, "job-missing", f"there is no job {queue}/{id}, or it has expired")
    if reply is not Reply.OK:
        raise Problem(409, "wrong-state", f"{queue}/{id}: {refusal}", reply=str(reply))
    return {"queue": queue, "id": id, "reply": reply}
