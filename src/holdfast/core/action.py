"""What people and programs do to queues, schedules and workers: who acts, and the event of what is no transition.

Who acts is a context variable: stores read it when they are called (`actor`), and whoever calls sets it (`acting_as`).
So it reaches a store through every layer between, and no method has to hand it on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec

from ..errors import ConfigError
from .bound import MOST_ACTION_BYTES, MOST_NAME_BYTES
from .word import check_text

OPERATE = "operate"
"""What stands in place of a transition in the event of an action."""
ATTRIBUTED = frozenset({"cancel", "promote", "requeue", "delete", "complete"})
"""Transitions that somebody may ask for: their events have the actor, if there is one."""
_actor: ContextVar[str | None] = ContextVar("holdfast_actor", default=None)
_json = msgspec.json.Encoder(order="sorted").encode


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An action that is no transition, as the event log of its queue has it: `name` is the event's cause."""

    name: str
    message: str
    """What was changed, as JSON."""
    id: str = ""
    run: int = 0
    task: str | None = None
    key: str | None = None
    worker: str | None = None
    actor: str | None = None


def actor() -> str | None:
    """Return who acts; `None` when nobody said."""
    return _actor.get()


@contextmanager
def acting_as(name: str | None) -> Iterator[None]:
    """What is done in this block is done by `name`; with `None`, by nobody in particular."""
    before = _actor.set(None if name is None else check_actor(name))
    try:
        yield
    finally:
        _actor.reset(before)


def check_actor(name: str) -> str:
    """Return a name for who acts, or raise when it cannot be one."""
    check_text(name, "actor", "the name of who acts")
    if len(name.encode()) > MOST_NAME_BYTES:
        raise ConfigError(f"actor: the name of who acts is at most {MOST_NAME_BYTES} bytes")
    return name


def attributed(who: str, transition: str, cause: str | None) -> str | None:
    """Return the actor for an event. What follows from an action by itself, at a dependant, is nobody's."""
    return who if transition in ATTRIBUTED and cause != "blocker" else None


def signed(action: Action | None) -> str | None:
    """Return an action with who acts, as JSON, for a server to append; nothing for none."""
    return None if action is None else _json(msgspec.structs.replace(action, actor=actor())).decode()


def told(what: Mapping[str, object]) -> str:
    """Return what was changed as JSON that is never long: where it would be, values are cut."""
    text = _json(what).decode()
    if len(text.encode()) <= MOST_ACTION_BYTES:
        return text
    room = MOST_ACTION_BYTES // (8 * max(1, len(what)))
    return _json({name: str(value)[:room] + "…" for name, value in what.items()}).decode()


def configured(set: Mapping[str, object], clear: object) -> Action:
    """Return the action that set and cleared settings of a queue."""
    return Action(name="configure", message=told({"clear": clear, "set": set} if clear else {"set": set}))


def adjusted(task: str, set: Mapping[str, object], clear: object) -> Action:
    """Return the action that set and cleared settings of a task."""
    return Action(name="adjust", task=task, message=told({"clear": clear, "set": set} if clear else {"set": set}))


def key_limited(key: str, concurrency: int | None) -> Action:
    """Return the action that gave one key a concurrency of its own, or took it away."""
    return Action(name="limit_key", key=key, message=told({"concurrency": concurrency}))


def declared(version: int, settings: bool, tasks: object) -> Action:
    """Return the action by which a worker changed what an earlier version had declared."""
    return Action(name="declare", message=told({"settings": settings, "tasks": tasks, "version": version}))


def ttl_set(id: str, run: int, ttl_ms: int) -> Action:
    """Return the action that changed for how long a job's result is kept."""
    return Action(name="set_result_ttl", id=id, run=run, message=told({"ttl_ms": ttl_ms}))


def signalled(id: str, run: int, running: str) -> Action:
    """Return the action that asked an active job to stop."""
    return Action(name="cancel", id=id, run=run, message=told({"running": running}))


def scheduled(schedule: str, change: str) -> Action:
    """Return the action that changed a schedule."""
    return Action(name="schedule", message=told({"change": change, "schedule": schedule}))


def commanded(worker: str, command: str) -> Action:
    """Return the action that told a worker something."""
    return Action(name="command", worker=worker, message=told({"command": command}))
