"""A list of jobs: what is asked for, as parameters of an address, and what is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime

import msgspec

from ....core.chain import ChainRef
from ....core.duration import to_datetime
from ....core.state import State
from ....errors import ConfigError
from ....store.contract import Filter
from ..filters import check_filters, check_word

ROWS = 50
MOST_ROWS = 200
DEEDS: dict[str, tuple[State, ...]] = {
    "promote": (State.SCHEDULED,),
    "cancel": (State.BLOCKED, State.SCHEDULED, State.WAITING, State.ACTIVE),
    "requeue": (State.COMPLETED, State.FAILED, State.CANCELLED),
    "delete": tuple(State),
}
"""The actions of a list, and the states in which jobs allow them."""
TIMES = ("enqueued", "started", "finished")
"""The instants of a job by which a list can be narrowed."""


@dataclass(frozen=True)
class JobQuery:
    """The parameters of a list of jobs. Empty ones do not matter."""

    state: str = ""
    queue: str = ""
    task: str = ""
    key: str = ""
    id: str = ""
    """The beginning of an id."""
    tag: str = ""
    worker: str = ""
    signature: str = ""
    chain: str = ""
    """The id of a chain's first job; `queue` is its queue."""
    chain_run: str = ""
    time: str = ""
    """What `after` and `before` look at: `enqueued`, which is the default, `started` or `finished`."""
    after: str = ""
    before: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> JobQuery:
        """Return what an address asks for; raise when it asks for what is no filter."""
        names = {each.name for each in fields(cls)}
        query = cls(**{name: value.strip() for name, value in given.items() if name in names})
        query = replace(query, after=_with_time(query.after), before=_with_time(query.before))
        if query.state:
            _state(query.state)
        check_word("time", query.time, TIMES)
        _instant(query.after, "after")
        _instant(query.before, "before")
        return replace(query, time="") if query.time == TIMES[0] or not (query.after or query.before) else query

    @classmethod
    def of_address(cls, given: Mapping[str, str]) -> JobQuery:
        """Return what the address of a list asks for; raise also for a name that is no filter, which would find all."""
        known = [each.name for each in fields(cls)]
        check_filters(given, known)
        return cls.of(given)

    def parameters(self, **changes: str) -> dict[str, str]:
        """Return what an address has to say for this query, or for it with changes."""
        query = replace(self, **changes)
        return {each.name: getattr(query, each.name) for each in fields(query) if getattr(query, each.name)}

    @property
    def narrows(self) -> bool:
        """True when it asks for more than a queue and a state, so that counters do not know how many match."""
        return bool(self.parameters(state="", queue=""))

    def filter(self) -> Filter:
        """Return the filter for the store; workers are asked for beside it."""
        chain = None
        if self.chain:
            chain = ChainRef(self.queue, self.chain, int(self.chain_run) if self.chain_run.isdigit() else 0)
        which = Filter(
            queue=(self.queue or None) if chain is None else None,
            states=(_state(self.state),) if self.state else (),
            task=self.task or None,
            key=self.key or None,
            id_prefix=self.id or None,
            tag=self.tag or None,
            signature=self.signature or None,
            chain=chain,
        )
        return msgspec.structs.replace(which, **{f"{name}_ms": at for name, at in self._times().items()})

    def _times(self) -> dict[str, int | None]:
        """Return the instants between which jobs are, by the names of filters."""
        what = self.time or TIMES[0]
        return {f"{what}_after": _instant(self.after, "after"), f"{what}_before": _instant(self.before, "before")}

    def keywords(self) -> dict[str, object]:
        """Return the filter as `app.jobs` takes it."""
        which = self.filter()
        found: dict[str, object] = {
            "queue": which.queue, "state": self.state or None, "task": which.task, "key": which.key, "tag": which.tag,
            "id_prefix": which.id_prefix, "signature": which.signature, "chain": which.chain,
            "worker": self.worker or None, **{name: to_datetime(at) for name, at in self._times().items()},
        }  # fmt: skip
        return {name: value for name, value in found.items() if value is not None}

    def deeds(self) -> list[str]:
        """Return the actions that make sense for what is listed."""
        if not self.state:
            return ["cancel", "requeue", "delete"]
        return [deed for deed, states in DEEDS.items() if _state(self.state) in states]


def _state(name: str) -> State:
    try:
        return State(name)
    except ValueError:
        raise ConfigError(f"state={name!r} is none; known are {', '.join(State)}") from None


def _with_time(text: str) -> str:
    """Return a date as forms have it, with the time at which it begins."""
    return f"{text}T00:00" if len(text) == len("2026-11-15") else text


def _instant(text: str, name: str) -> int | None:
    """Return an instant from a form: a date, or a date and a time, in UTC unless it says a zone."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{name}={text!r}: give a date and time, such as 2026-11-15T09:30") from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
