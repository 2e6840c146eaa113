"""Values from the words of a command line: durations, rates, sizes and NAME=VALUE."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import click
import msgspec

from ..core.duration import written_seconds
from ..core.limit import Rate
from ..errors import ConfigError
from ..json.decode import decode_json

_RATE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)/((?:\d+(?:\.\d*)?|\.\d+)?(?:ms|s|m|h|d))(?:,burst=(\d+))?")


_BYTES = re.compile(r"(\d+)([kmgKMG]?)")
_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30}


def seconds(text: str, name: str = "duration") -> float:
    """Return a duration in seconds."""
    found = written_seconds(text)
    if found is None:
        raise ConfigError(f"{name}={text!r}: write seconds (30), or 500ms, 10m, 2h, 1d")
    return found


def rate(text: str, name: str = "rate") -> Rate:
    """Return a rate: `100/s`, `5/10s`, `1000/h,burst=50`."""
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{name}={text!r}: write 100/s, 5/10s or 1000/h,burst=50, or none for no limit")
    per = match[2] if match[2][0].isdigit() or match[2][0] == "." else f"1{match[2]}"
    return Rate(float(match[1]), seconds(per, name), int(match[3]) if match[3] else None)


def json_or_text(text: str) -> object:
    """Return a word as JSON where it is JSON, else as text."""
    try:
        return decode_json(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text


def pairs(words: Iterable[str]) -> dict[str, str]:
    """Return key=value words as a dict of texts."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise ConfigError(f"{word!r} is not name=value")
        if name in found:
            raise ConfigError(f"{name!r} is given twice")
        found[name] = value
    return found


def as_seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Parse an option that is a duration: 30, 500ms, 10m, 2h, 1d."""
    return None if value is None else seconds(value, param.opts[0])


def as_instant(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    """Return an instant: as ISO 8601, in local time where it names no zone; or as how long ago that was."""
    if value is None:
        return None
    if (ago := written_seconds(value)) is not None:
        return datetime.now(UTC) - timedelta(seconds=ago)
    try:
        return datetime.fromisoformat(value.strip()).astimezone()
    except (ValueError, OverflowError):
        raise ConfigError(
            f"--{param.name}={value!r}: write an instant (2026-01-31T12:00, 2026-01-31T12:00Z), or how long ago (2h)"
        ) from None


def as_prefix(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return how ids begin; refuse nothing, which may be a variable of a shell that is not set: all begin so."""
    if value == "":
        raise ConfigError("--id-prefix is empty, and every id begins so: say how they begin, or leave it out")
    return value


by_option = click.option(
    "--by", type=click.Choice(["enqueued", "started", "finished"]), default="enqueued", show_default=True,
    help="What --since and --until look at: when jobs came, when their latest attempt began, or when they ended.",
)  # fmt: skip


def as_bytes(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Parse an option that is a number of bytes: 1048576, 512k, 500M, 2G."""
    if value is None:
        return None
    match = _BYTES.fullmatch(value.strip())
    if match is None:
        raise ConfigError(f"{param.opts[0]}={value!r}: write bytes, or 512k, 500M, 2G")
    return int(match[1]) << _SHIFTS[match[2].lower()]


def as_port(ctx: click.Context, param: click.Parameter, value: str | None) -> int | str | None:
    """Parse an option that is a port, or the path of a Unix socket."""
    if value is None or value.startswith("/"):
        return value
    if not value.isascii() or not value.isdigit():
        raise ConfigError(f"{param.opts[0]}={value!r}: a port, such as 9100, or the path of a Unix socket")
    return int(value)


def as_names(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Parse an option that is several names in one word: a,b,c."""
    if value is None:
        return None
    found = tuple(part.strip() for part in value.split(",") if part.strip())
    if not found:
        raise ConfigError(f"{param.opts[0]}={value!r} names nothing; write a,b")
    return found
