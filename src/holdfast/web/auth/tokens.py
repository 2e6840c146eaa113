"""Tokens of programs: `Authorization: Bearer …`."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from ...errors import ConfigError
from .identity import Identity, Role, check_role

SHORTEST = 16
"""A token of fewer characters could be guessed."""
_HASHED = re.compile(r"sha256:([0-9a-f]{64})")


class AccessToken(msgspec.Struct, frozen=True):
    """A token as the server keeps it: by its hash."""

    digest: bytes
    name: str = "token"
    role: Role = "operator"


def access_token(text: str, role: str = "operator", name: str | None = None) -> AccessToken:
    """Return a token by its text, or by `sha256:` and the hash of it."""
    hashed = _HASHED.fullmatch(text)
    if hashed is None and len(text) < SHORTEST:
        raise ConfigError(f"a token has at least {SHORTEST} characters: `openssl rand -hex 24` makes one")
    digest = bytes.fromhex(hashed[1]) if hashed else hash_of(text)
    checked = check_role(role)
    return AccessToken(digest, name or checked, checked)


def hash_of(text: str) -> bytes:
    """Return what is kept of a token."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def read_tokens(path: Path) -> list[AccessToken]:
    """Return the tokens of a file: `TOKEN [ROLE [NAME]]` on each line."""
    found = []
    for number, line in enumerate(_lines(path), 1):
        words = line.split(maxsplit=2)
        if not words or words[0].startswith("#"):
            continue
        try:
            found.append(access_token(*words))
        except ConfigError as error:
            raise ConfigError(f"{path}, line {number}: {error}") from None
    if not found:
        raise ConfigError(f"{path}: there is no token in it; write one on a line: TOKEN [viewer|operator [NAME]]")
    return found


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: it cannot be read ({error})") from None


def bearer(tokens: Iterable[AccessToken], presented: str) -> AccessToken | None:
    """Return the token that a caller has, compared in the same time whichever it is."""
    digest, found = hash_of(presented), None
    for token in tokens:
        if hmac.compare_digest(token.digest, digest):
            found = token
    return found


def identity_of(token: AccessToken) -> Identity:
    """Return who has a token."""
    return Identity(token.name, token.role, "token")
