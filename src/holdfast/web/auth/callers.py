"""Who a caller is: by token, by login, by the hook of the program, or, where nobody is asked, by being here."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence

from starlette.requests import HTTPConnection

from ..problem import Problem
from ..settings import WebSettings
from .hosts import is_loopback
from .identity import AuthHook, Identity
from .passwords import NOBODY, UserFile, is_password
from .sessions import Login, Sessions, proof_of
from .throttle import Throttle
from .tokens import AccessToken, bearer, identity_of

FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")


class Callers:
    """Knows callers. Without tokens, users and hook everyone on this machine is an operator."""

    def __init__(
        self,
        settings: WebSettings,
        sessions: Sessions,
        tokens: Sequence[AccessToken],
        users: UserFile | None,
        hook: AuthHook | None,
    ) -> None:
        self.settings = settings
        self.sessions = sessions
        self.throttle = Throttle(settings.clock)
        self.tokens = tuple(tokens)
        self.users = users
        self.hook = hook
        self._checks = asyncio.Semaphore(2)
        """So many passwords are checked at once: each takes memory and a core."""

    @property
    def open(self) -> bool:
        """True when nobody has to say who they are."""
        return not self.tokens and self.users is None and self.hook is None

    @property
    def logs_in(self) -> bool:
        """True when there is something to log in with."""
        return bool(self.tokens) or self.users is not None

    async def identify(self, connection: HTTPConnection) -> Identity | None:
        """Return who asks, or `None` when that is not known."""
        scheme, _, presented = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            token = bearer(self.tokens, presented.strip())
            if token is not None:
                return identity_of(token)
        if (login := self._login(connection)) is not None:
            return Identity(login.name, login.role, "session", login.id)
        if self.hook is not None:
            found = self.hook(connection)
            return await found if inspect.isawaitable(found) else found
        return self._anyone(connection) if self.open else None

    def _login(self, connection: HTTPConnection) -> Login | None:
        cookie = connection.cookies.get(self.settings.cookie, "")
        login = self.sessions.read(cookie) if cookie else None
        return login if login is not None and self._proved(login) else None

    def _proved(self, login: Login) -> bool:
        """Return whether the password or token of a login is still what it was, with the role it had."""
        user = self.users.get(login.name) if self.users is not None else None
        if user is not None and proof_of(user.hash) == login.proof:
            return user.role == login.role
        return any(proof_of(token.digest) == login.proof and token.role == login.role for token in self.tokens)

    def _anyone(self, connection: HTTPConnection) -> Identity:
        if not self.settings.insecure and not from_here(connection):
            raise Problem(
                403,
                "not-from-here",
                "this server asks nobody who they are, and so serves this machine alone: give it tokens, users or an "
                "auth hook, or say insecure",
            )
        return Identity("anonymous", "operator", "open")

    async def log_in(self, address: str, name: str, secret: str) -> str | None:
        """Return the cookie of a new login, or `None` when name and password, or the token, are not right."""
        if wait := self.throttle.wait(address):
            seconds = str(int(wait) + 1)
            raise Problem(
                429, "too-many-logins", f"too many wrong logins: try again in {seconds} s",
                headers={"Retry-After": seconds},
            )  # fmt: skip
        cookie = await self._by_password(name, secret) if name else self._by_token(secret)
        if cookie is None:
            self.throttle.failed(address)
        else:
            self.throttle.succeeded(address)
        return cookie

    async def _by_password(self, name: str, password: str) -> str | None:
        user = self.users.get(name) if self.users is not None else None
        async with self._checks:
            right = await asyncio.to_thread(is_password, password, NOBODY if user is None else user.hash)
        if user is None or not right:
            return None
        return self.sessions.begin(user.name, user.role, proof_of(user.hash))

    def _by_token(self, presented: str) -> str | None:
        token = bearer(self.tokens, presented)
        return None if token is None else self.sessions.begin(token.name, token.role, proof_of(token.digest))


def from_here(connection: HTTPConnection) -> bool:
    """Return whether a caller is on this machine, and no proxy stands between."""
    client = connection.client
    near = client is None or is_loopback(client.host)
    return near and not any(name in connection.headers for name in FORWARDED)
