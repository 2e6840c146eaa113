"""Which jobs: the words by which lists, counts and requeues choose them, spelled once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from ..core.chain import ChainRef
from ..core.duration import Instant, instant_ms
from ..core.state import State
from ..errors import ConfigError
from ..store.contract import Filter
from .options import known_options

FINISHED = (State.COMPLETED, State.FAILED, State.CANCELLED)


class JobFilter(TypedDict, total=False):
    """Jobs that match in all that is given."""

    state: str | None
    task: str | None
    key: str | None
    tag: str | None
    id_prefix: str | None
    """Their ids begin with this."""
    signature: str | None
    """Their last error has this signature (`ErrorRecord.signature`); they failed, or will run again."""
    enqueued_after: Instant | None
    """They came at this instant or later."""
    enqueued_before: Instant | None
    """They came before this instant."""
    started_after: Instant | None
    """Their latest attempt was started at this instant or later."""
    started_before: Instant | None
    """Their latest attempt was started before this instant."""
    finished_after: Instant | None
    """They were completed, failed for good or were cancelled at this instant or later."""
    finished_before: Instant | None
    """They were finished before this instant."""


INSTANTS = ("enqueued_after", "enqueued_before", "started_after", "started_before", "finished_after", "finished_before")
"""The fields of `JobFilter` that are instants; `Filter` has them in milliseconds."""


def selected(
    what: str,
    given: JobFilter,
    *,
    queue: str | None = None,
    ids: Sequence[str] = (),
    chain: ChainRef | None = None,
    states: tuple[State, ...] = (),
) -> Filter:
    """Return the filter for what was given; `states` are those without a `state`."""
    fields: dict[str, Any] = known_options(what, given, JobFilter)
    state = fields.pop("state", None)
    fields |= {f"{name}_ms": instant_ms(at, name) for name in INSTANTS if (at := fields.pop(name, None)) is not None}
    return Filter(
        queue=queue,
        ids=tuple(ids),
        chain=chain,
        states=(known_state(state),) if state else states,
        **fields,
    )


def to_requeue(ids: Sequence[str]) -> tuple[State, ...]:
    """Return the states in which jobs are requeued, where none is named: finished ones by id, else failed ones."""
    return FINISHED if ids else (State.FAILED,)


def known_state(name: str) -> State:
    """Return the state of that name."""
    try:
        return State(name)
    except ValueError:
        raise ConfigError(f"state={name!r} is none; known are {', '.join(State)}") from None
