"""A caller: a name, a role, and how it was known."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias, get_args

import msgspec
from starlette.requests import HTTPConnection

from ...core.action import check_actor
from ...errors import ConfigError

Role = Literal["viewer", "operator"]
"""A viewer sees everything that is not redacted; an operator may change it, too."""
Via = Literal["open", "token", "session", "hook"]


class Identity(msgspec.Struct, frozen=True):
    """Who asks. The name is the actor of the events that follow from what they do."""

    name: str
    role: Role = "viewer"
    via: Via = "hook"
    session: str | None = None
    """The id of the login, when it is one by cookie."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ConfigError(f"Identity({self.name!r}): a name of at least one character")
        check_actor(self.name)
        check_role(self.role)

    @property
    def operates(self) -> bool:
        """True when they may change something."""
        return self.role == "operator"


AuthHook: TypeAlias = Callable[[HTTPConnection], "Identity | Awaitable[Identity | None] | None"]
"""Your own way to know callers; `None` is a caller that it does not know."""


def check_role(role: str) -> Role:
    """Return the role of that name."""
    if role == "viewer":
        return "viewer"
    if role == "operator":
        return "operator"
    raise ConfigError(f"role {role!r} is none; known are {', '.join(get_args(Role))}")
