"""Types that several answers share."""

from __future__ import annotations

from typing import Any, NotRequired, TypeAlias, TypedDict

Json: TypeAlias = Any
"""Whatever JSON can hold."""
Object: TypeAlias = dict[str, Any]
"""A JSON object whose fields are somebody else's."""


class RunRef(TypedDict):
    """One run of a job."""

    queue: str
    id: str
    run: int


class ErrorBrief(TypedDict):
    """What an attempt that went wrong left, in short."""

    type: str
    message: str
    kind: str
    signature: NotRequired[str]


class ErrorWhole(ErrorBrief):
    """What an attempt that went wrong left."""

    traceback: str
    fields: Object
