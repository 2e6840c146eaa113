"""What a sandboxed task may do: everything that is not listed is refused by the kernel."""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec

from ..errors import ConfigError

MEMORY = 512 * 1024 * 1024
OPEN_FILES = 64
PROCESSES = 64


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    """Permissions of a task with `executor="sandbox"`."""

    read: tuple[str, ...] = ()
    """Files and folders that it may read, with all that is in them."""
    write: tuple[str, ...] = ()
    """Files and folders that it may read, write, create and remove in."""
    connect: tuple[int, ...] = ()
    """TCP ports that it may connect to, on any host."""
    env: tuple[str, ...] = ()
    """Environment variables of the worker that it may see."""
    memory: int = MEMORY
    """Bytes of address space beyond what its interpreter has when it starts."""
    cpu_seconds: float | None = None
    """Processor time of one attempt, with that of its programs."""
    open_files: int = OPEN_FILES
    """Files and sockets that may be open at once."""
    subprocess: bool = False
    """Whether it may start other programs, which are then in the same sandbox."""
    processes: int = PROCESSES
    """How many others may be there at once, with `subprocess`; counted a few times a second."""

    def __post_init__(self) -> None:
        for name in ("read", "write"):
            msgspec.structs.force_setattr(
                self, name, tuple(_path(name, each) for each in _several(name, getattr(self, name)))
            )
        for name in ("connect", "env"):
            msgspec.structs.force_setattr(self, name, tuple(_several(name, getattr(self, name))))
        for port in self.connect:
            _check_port(port)
        for name in self.env:
            if not isinstance(name, str) or not name or "=" in name:
                raise ConfigError(f"Sandbox(env={name!r}): the name of an environment variable")
        for name, least in (("memory", 16 * 1024 * 1024), ("open_files", 16), ("processes", 1)):
            _check_number(name, getattr(self, name), least, "a whole number", int)
        if self.cpu_seconds is not None:
            _check_number("cpu_seconds", self.cpu_seconds, 1, "a number", int, float)


def _several(name: str, value: object) -> Iterable[object]:
    if isinstance(value, str | bytes | int) or not isinstance(value, Iterable):
        raise ConfigError(f"Sandbox({name}={value!r}): give a list")
    return value


def _path(name: str, value: object) -> str:
    if not isinstance(value, str | os.PathLike):
        raise ConfigError(f"Sandbox({name}=...): {value!r} is no path")
    path = os.fspath(value)
    if not isinstance(path, str) or not os.path.isabs(path):
        raise ConfigError(f"Sandbox({name}=...): {path!r}: give absolute paths, as workers may start anywhere")
    if "\0" in path or path.encode("utf-8", "replace").decode() != path:
        raise ConfigError(f"Sandbox({name}=...): {path!r}: no path has a NUL character or half a surrogate pair")
    return path


def _check_port(port: object) -> None:
    if isinstance(port, tuple | list) or (isinstance(port, str) and not port.isdigit()):
        raise ConfigError(
            f"Sandbox(connect=[{port!r}]): the kernel rules ports, not hosts, so a host cannot be kept. Give the port "
            "alone, which is then open on every host; or talk to the host in a task outside the sandbox, and hand over "
            "files"
        )
    if type(port) is not int or not 0 < port < 65536:
        raise ConfigError(f"Sandbox(connect={port!r}): a TCP port is a whole number from 1 to 65535")


def _check_number(name: str, value: object, least: int, what: str, *kinds: type) -> None:
    if type(value) not in kinds or not least <= value < 2**62:  # type: ignore[operator]
        raise ConfigError(f"Sandbox({name}={value!r}): {what} from {least}")
