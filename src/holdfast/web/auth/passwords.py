"""Users and their passwords, hashed by scrypt: `NAME:ROLE:HASH` on each line of a file."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from pathlib import Path

import msgspec

from ...errors import ConfigError
from .identity import Role, check_role

N, R, P = 2**15, 8, 1
"""What scrypt costs here: 32 MiB and some 60 ms for each password."""
MOST_MEMORY = 256 * 1024 * 1024
LONGEST = 1024
"""No password has more characters: a longer one would only cost time."""


class User(msgspec.Struct, frozen=True):
    """Someone who may log in."""

    name: str
    role: Role
    hash: str


def hash_password(password: str) -> str:
    """Return what a file of users keeps of a password."""
    if not 8 <= len(password) <= LONGEST:
        raise ConfigError(f"a password has from 8 to {LONGEST} characters")
    salt = os.urandom(16)
    return f"scrypt${N}${R}${P}${_text(salt)}${_text(_scrypt(password, salt, N, R, P))}"


def is_password(password: str, hashed: str) -> bool:
    """Return whether a password is the one of this hash."""
    n, r, p, salt, digest = _parts(hashed)
    return len(password) <= LONGEST and hmac.compare_digest(_scrypt(password, salt, n, r, p), digest)


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    data = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(data, salt=salt, n=n, r=r, p=p, maxmem=MOST_MEMORY, dklen=32)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _parts(hashed: str) -> tuple[int, int, int, bytes, bytes]:
    try:
        kind, n, r, p, salt, digest = hashed.split("$")
        if kind != "scrypt":
            raise ValueError(kind)
        return int(n), int(r), int(p), base64.b64decode(salt, validate=True), base64.b64decode(digest, validate=True)
    except ValueError:
        raise ConfigError("it is no hash of a password: `holdfast serve --hash-password` makes one") from None


NOBODY = f"scrypt${N}${R}${P}${_text(bytes(16))}${_text(bytes(32))}"
"""The hash against which the password of an unknown user is compared, so that it takes as long as a known one's."""


class UserFile:
    """The users of a file, read again when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._users: dict[str, User] = {}
        self.get("")

    def get(self, name: str) -> User | None:
        """Return a user by name."""
        try:
            status = self._path.stat()
            if (stamp := (status.st_mtime_ns, status.st_size)) != self._stamp:
                self._users, self._stamp = read_users(self._path), stamp
        except OSError as error:
            raise ConfigError(f"{self._path}: it cannot be read ({error})") from None
        return self._users.get(name)


def read_users(path: Path) -> dict[str, User]:
    """Return the users of a file by name."""
    found: dict[str, User] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            user = _user(line.strip())
        except ConfigError as error:
            raise ConfigError(f"{path}, line {number}: {error}") from None
        found[user.name] = user
    if not found:
        raise ConfigError(f"{path}: there is no user in it; write NAME:ROLE:HASH on a line")
    return found


def _user(line: str) -> User:
    name, role, hashed = (*line.split(":", 2), "", "")[:3]
    if not name or not hashed:
        raise ConfigError("write NAME:ROLE:HASH, such as ann:operator:scrypt$…")
    _parts(hashed)
    return User(name, check_role(role), hashed)
