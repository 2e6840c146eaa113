"""Logins by cookie: signed, so that the server keeps nothing of them but those that were ended early."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Callable

import msgspec

from .identity import Identity, Role

MOST_ENDED = 10_000


class Login(msgspec.Struct, frozen=True, array_like=True):
    """What a cookie says."""

    id: str
    name: str
    role: Role
    expires: float
    proof: str
    """A mark of the password or token that it was made with: when that is changed, the login is over."""


class Sessions:
    """Makes and reads the cookies of logins, and the tokens against forged requests."""

    def __init__(self, secret: str | bytes | None, seconds: float, clock: Callable[[], float]) -> None:
        given = secret.encode() if isinstance(secret, str) else secret
        self._key = hashlib.sha256(b"holdfast web\0" + (given or os.urandom(32))).digest()
        self._seconds = seconds
        self._clock = clock
        self._ended: dict[str, float] = {}

    def begin(self, name: str, role: Role, proof: str) -> str:
        """Return the cookie of a new login."""
        login = Login(os.urandom(16).hex(), name, role, self._clock() + self._seconds, proof)
        body = base64.urlsafe_b64encode(msgspec.json.encode(login)).decode().rstrip("=")
        return f"{body}.{self._sign('login', body)}"

    def read(self, cookie: str) -> Login | None:
        """Return the login of a cookie, unless it is forged or over."""
        body, _, signature = cookie.partition(".")
        if not hmac.compare_digest(self._sign("login", body).encode(), signature.encode("utf-8", "replace")):
            return None
        login = msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=Login)
        return None if login.expires <= self._clock() or login.id in self._ended else login

    def end(self, id: str) -> None:
        """The login is over, before its time."""
        self._ended[id] = now = self._clock()
        for old in [each for each, at in self._ended.items() if at + self._seconds < now]:
            del self._ended[old]
        while len(self._ended) > MOST_ENDED:
            del self._ended[next(iter(self._ended))]

    def csrf(self, identity: Identity) -> str:
        """Return the token that a page of this caller sends along with whatever changes something."""
        return self._sign("csrf", identity.session or f"{identity.via}:{identity.name}")

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}\0{text}".encode("utf-8", "surrogatepass"), "sha256").hexdigest()


def proof_of(secret: bytes | str) -> str:
    """Return the mark of a password's hash or a token's."""
    data = secret.encode() if isinstance(secret, str) else secret
    return hashlib.sha256(b"proof\0" + data).hexdigest()[:16]
