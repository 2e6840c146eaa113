"""Answers about chains."""

from __future__ import annotations

from typing import TypedDict

from ....core.state import State
from .common import ErrorBrief, Json, RunRef
from .job import JobShape, ReplyShape


class ChainShape(RunRef):
    """A chain as a list shows it."""

    task: str | None
    state: State
    position: int
    current: RunRef
    enqueued_at: str | None
    finished_at: str | None
    expires_at: str | None
    error: ErrorBrief | None


class ChainWhole(ChainShape):
    """A chain, its result, and a page of its jobs, by their place in it."""

    result: Json
    jobs: list[JobShape]
    cursor: str | None


class ChainList(TypedDict):
    """Some chains, and where the next page begins."""

    chains: list[ChainShape]
    cursor: str | None


class DeleteShape(ReplyShape):
    """What the deletion of a chain did: how many chains are gone."""

    chains: int


class FlowJobShape(RunRef):
    """A job of a flow: its name in the flow, how its chain stands, and how many others it still waits for."""

    name: str
    task: str | None
    state: State
    blockers: int


class FlowShape(TypedDict):
    """A flow: its jobs by name, and how many are in which state. `more`: it has others, too."""

    id: str
    counts: dict[str, int]
    over: bool
    more: bool
    jobs: list[FlowJobShape]
