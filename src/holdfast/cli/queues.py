"""`holdfast queues`, `pause` and `resume`: counts, and settings that hold at the next claim."""

from __future__ import annotations

import math
from collections.abc import Awaitable
from typing import Any, TypeVar, get_args

import click
import msgspec

from ..app.app import Holdfast
from ..app.queue import AnyQueue
from ..app.settings import LIVE_QUEUE_SETTINGS, QUEUE_SETTINGS
from ..core.limit import QueueSettings, Rate
from ..errors import ConfigError
from ..json import form as json_form
from ..store.contract import KeyInfo, KeyOrder, QueueInfo
from .command import Command, CommandGroup, Source, acting_options, json_option, source_options
from .complete import complete_queues
from .output import duration, json_out, say, say_note, table
from .parse import json_or_text, pairs, rate, seconds

T = TypeVar("T")
ALWAYS = ("waiting", "active", "failed")
"""The states that are shown in the narrowest terminal."""
COUNTED = ("waiting", "scheduled", "blocked", "active", "failed", "completed", "cancelled")


@click.group(cls=CommandGroup, default="list")
def queues() -> None:
    """List queues and change their live settings. Alone, it lists.

    \b
    Examples:
      holdfast queues --app shop:app
      holdfast queues set mail concurrency=5 rate=100/s
      holdfast queues keys mail --order starved
      holdfast queues limit-key mail tenant-7 2
    """


@queues.command("list")
@source_options
@json_option
def list_(source: Source, as_json: bool) -> None:
    """List queues.

    Jobs by state, workers, the age of the oldest waiting job, and limits (* set by an operator).

    \b
    Examples:
      holdfast queues --url sqlite:///jobs.db
      holdfast queues list --json
    """

    async def work(app: Holdfast) -> tuple[list[QueueInfo], int]:
        return await app.queues(), await app.store.now_ms()

    found, now = source.run(work)
    if as_json:
        json_out({"queues": [json_form.queue(info, now) for info in found]})
        return
    counts = (f">{state}" if state in ALWAYS else f">?{state}" for state in COUNTED)
    columns = ("queue", *counts, ">workers", ">oldest", "limits")
    table(columns, [_row(info, now) for info in found])


def _row(info: QueueInfo, now: int) -> tuple[object, ...]:
    oldest = info.oldest_waiting_ms
    age = None if oldest is None else duration(max(0, now - oldest))
    return (info.name, *(info.counts.get(state, 0) for state in COUNTED), info.workers, age, _limits(info))


def _limits(info: QueueInfo) -> str:
    """Return the settings that differ from the library's, in words."""
    usual = msgspec.structs.asdict(QueueSettings())
    parts = []
    for name, value in msgspec.structs.asdict(info.settings).items():
        star = "*" if name in info.overrides else ""
        if value != usual[name]:
            parts.append(("paused" if name == "paused" else f"{name}={_short(value)}") + star)
        elif star:
            parts.append(f"{name}={_short(value)}*")
    parts += [f"{key}:{limit}*" for key, limit in info.key_overrides.items()]
    return " ".join(parts)


def _short(value: object) -> str:
    if isinstance(value, Rate):
        return f"{value.count:g}/{value.per:g}s" + (f",burst={value.burst}" if value.burst else "")
    return msgspec.json.encode(value).decode()


def _check_setting(name: str) -> None:
    """Raise when a queue has no such setting."""
    if name not in QUEUE_SETTINGS:
        raise ConfigError(f"{name!r} is not a setting of a queue; known are {', '.join(LIVE_QUEUE_SETTINGS)}")


def _setting(name: str, text: str) -> Any:
    """Return the value of one setting; `none` is no limit."""
    _check_setting(name)
    if name in ("rate", "key_rate"):
        return None if text.lower() == "none" else rate(text, name)
    if name == "result_ttl":
        return math.inf if text.lower() in ("none", "inf") else seconds(text, name)
    return None if text.lower() == "none" else json_or_text(text)


@queues.command("set")
@click.argument("name")
@click.argument("words", nargs=-1, metavar="SETTING=VALUE...")
@acting_options
@click.option("--clear", multiple=True, metavar="SETTING", help="Back to what the workers declare; may be repeated.")
@json_option
def set_(source: Source, name: str, words: tuple[str, ...], clear: tuple[str, ...], as_json: bool) -> None:
    """Change settings of a queue, above what its workers declare, until they are cleared.

    Settings: paused, priority, concurrency, key_concurrency, rate, key_rate, result_ttl, retention, history.
    `none` is no limit; a result_ttl of `none` is for ever.

    \b
    Examples:
      holdfast queues set mail concurrency=5 rate=100/s key_concurrency=2
      holdfast queues set mail rate=1000/h,burst=50 result_ttl=1d
      holdfast queues set mail retention='{"failed_count": 5000}' priority=3 paused=false
      holdfast queues set mail --clear concurrency --clear rate
    """
    given = {setting: _setting(setting, text) for setting, text in pairs(words).items()}
    if not given and not clear:
        raise ConfigError(f"queues set {name}: give SETTING=VALUE or --clear SETTING")
    for setting in clear:
        _check_setting(setting)

    async def work(app: Holdfast) -> QueueSettings:
        queue = app.queue(name)
        return await _noting(queue, queue.set(clear=clear, **given))

    settings = msgspec.to_builtins(source.run(work))
    if as_json:
        json_out({"name": name, "settings": settings})
    else:
        table(("setting", "value"), [(each, msgspec.json.encode(value).decode()) for each, value in settings.items()])


async def _noting(queue: AnyQueue, change: Awaitable[T]) -> T:
    """Return what the change returns, and say so when the queue is new: its name may be mistyped."""
    known = await queue.info() is not None
    changed = await change
    if not known:
        say_note(f"the store knew no queue {queue.name!r} until now")
    return changed


@queues.command("keys")
@click.argument("name")
@source_options
@click.option(
    "--order", type=click.Choice(get_args(KeyOrder)), default="busiest", show_default=True,
    help="Most active jobs first, the longest wait first, or by name.",
)  # fmt: skip
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many.")
@json_option
def keys(source: Source, name: str, order: KeyOrder, limit: int, as_json: bool) -> None:
    """List the concurrency keys of a queue that have jobs.

    Jobs, the limit (* its own), tokens of its rate, and how long the job that comes first has waited.

    \b
    Examples:
      holdfast queues keys mail
      holdfast queues keys mail --order starved --json
    """

    async def work(app: Holdfast) -> tuple[list[KeyInfo], int]:
        return await app.queue(name).keys(order=order, limit=limit), await app.store.now_ms()

    found, now = source.run(work)
    if as_json:
        json_out({"name": name, "keys": [json_form.key(info, now) for info in found]})
        return
    columns = ("key", ">waiting", ">active", ">limit", ">tokens", ">oldest", "")
    table(columns, [_key_row(info, now) for info in found])


def _key_row(info: KeyInfo, now: int) -> tuple[object, ...]:
    limit = None if info.limit is None else f"{info.limit}{'*' if info.own_limit else ''}"
    tokens = None if info.tokens is None else f"{info.tokens:.1f}"
    age = None if info.oldest_waiting_ms is None else duration(max(0, now - info.oldest_waiting_ms))
    return (info.key, info.waiting, info.active, limit, tokens, age, "at its limit" if info.at_limit else "")


@queues.command("limit-key")
@click.argument("name")
@click.argument("key")
@click.argument("limit", metavar="N|none")
@acting_options
@json_option
def limit_key(source: Source, name: str, key: str, limit: str, as_json: bool) -> None:
    """Give one concurrency key a limit of its own; `none` takes it away.

    \b
    Examples:
      holdfast queues limit-key mail tenant-7 2
      holdfast queues limit-key mail tenant-7 none
    """
    if limit.lower() != "none" and not limit.isdecimal():
        raise ConfigError(f"{limit!r}: a whole number from 1, or none")
    number = None if limit.lower() == "none" else int(limit)

    async def work(app: Holdfast) -> None:
        queue = app.queue(name)
        await _noting(queue, queue.limit_key(key, number))

    source.run(work)
    if as_json:
        json_out({"name": name, "key": key, "concurrency": number})
    else:
        say(f"{name}: {key} " + ("follows the queue" if number is None else f"runs {number} at once"))


@click.command(cls=Command)
@click.argument("queue", shell_complete=complete_queues)
@acting_options
@json_option
def pause(source: Source, queue: str, as_json: bool) -> None:
    """Stop claiming from a queue.

    What runs goes on; `resume` ends it.

    \b
    Example:
      holdfast pause mail --app shop:app
    """
    _set_paused(source, queue, True, as_json)


@click.command(cls=Command)
@click.argument("queue", shell_complete=complete_queues)
@acting_options
@json_option
def resume(source: Source, queue: str, as_json: bool) -> None:
    """Claim from a queue again.

    \b
    Example:
      holdfast resume mail --app shop:app
    """
    _set_paused(source, queue, False, as_json)


def _set_paused(source: Source, name: str, paused: bool, as_json: bool) -> None:
    async def work(app: Holdfast) -> None:
        queue = app.queue(name)
        await _noting(queue, queue.pause() if paused else queue.resume())

    source.run(work)
    if as_json:
        json_out({"name": name, "paused": paused})
    else:
        say(f"{name}: {'paused' if paused else 'resumed'}")
