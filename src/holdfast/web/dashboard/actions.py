"""What the forms of the pages do: each action by its name, with the words that say what became of it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, Protocol, cast

import msgspec

from ...app.app import Holdfast
from ...core.limit import Rate
from ...core.schedule import CatchUp, Overlap
from ...core.tick import Cron, Every, Spec
from ...core.transition import Reply
from ...errors import ConfigError
from ...json.decode import decode_json
from ...store.contract import Running
from .shell import Note

Fields = Mapping[str, str]
Action = Callable[[Holdfast, Fields], Awaitable[Note]]
_RATE = re.compile(r"([0-9.]+)\s*(?:/|per)\s*([0-9.]*)\s*(ms|s|min|m|h|d)?(?:\s*burst\s*([0-9]+))?", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
SAID = {
    Reply.MISSING: "it is gone, or has expired",
    Reply.WRONG_STATE: "its state does not allow it any more",
    Reply.STALE: "it was changed meanwhile",
}


async def promote(app: Holdfast, fields: Fields) -> Note:
    """Let a scheduled job run now."""
    return _said(await app.client.promote(fields["queue"], fields["id"]), f"{fields['id']} may run now")


async def cancel(app: Holdfast, fields: Fields) -> Note:
    """Cancel a job, or tell it to stop."""
    running = cast(Running, fields.get("running") or "refuse")
    result = await app.cancel(fields["queue"], fields["id"], running)
    if not result:
        return Note(f"{fields['id']} was not cancelled: it is {result.state or 'gone'}", "bad")
    if result.runs_on:
        return Note(f"{fields['id']} runs, and was left alone", "warn")
    return Note(f"{fields['id']} was told to stop" if result.signalled else f"{fields['id']} is cancelled")


async def requeue(app: Holdfast, fields: Fields) -> Note:
    """Run a finished job anew."""
    started = await app.requeue(fields["id"], queue=fields["queue"])
    if not started:
        return Note(f"{fields['id']} was not requeued: its state does not allow it any more", "bad")
    return Note(f"{fields['id']} runs again, as run {started[0][2]}")


async def delete(app: Holdfast, fields: Fields) -> Note:
    """Delete a job."""
    return _said(await app.client.delete(fields["queue"], fields["id"]), f"{fields['id']} is deleted")


async def complete(app: Holdfast, fields: Fields) -> Note:
    """Complete a chain from outside, with a value that was typed."""
    try:
        value = decode_json(fields.get("result", "").encode())
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        return Note(f'The result is no JSON ({error}): write true, 42, "text", {{"a": 1}} or null', "bad")
    run = fields.get("run", "")
    reply = await app.complete_chain(fields["queue"], fields["id"], value, run=int(run) if run.isdecimal() else None)
    return _said(reply, f"{fields['id']} is completed")


async def pause_queue(app: Holdfast, fields: Fields) -> Note:
    """Pause a queue."""
    await app.queue(fields["queue"]).pause()
    return Note(f"Queue {fields['queue']} is paused: nothing is claimed from it until it is resumed", "warn")


async def resume_queue(app: Holdfast, fields: Fields) -> Note:
    """Resume a queue."""
    await app.queue(fields["queue"]).resume()
    return Note(f"Queue {fields['queue']} is resumed")


async def set_queue(app: Holdfast, fields: Fields) -> Note:
    """Set a limit of a queue, above what the code declares."""
    name, text = fields["setting"], fields.get("value", "").strip()
    value = _setting(name, text)
    await app.queue(fields["queue"]).set(**{name: value})  # type: ignore[arg-type]
    return Note(f"{_label(name)} of {fields['queue']} is {text or 'no limit'} from the next claim on")


async def clear_queue(app: Holdfast, fields: Fields) -> Note:
    """Take an operator's setting of a queue away."""
    await app.queue(fields["queue"]).set(clear=(fields["setting"],))
    return Note(f"{_label(fields['setting'])} of {fields['queue']} is as the code declares it")


async def limit_key(app: Holdfast, fields: Fields) -> Note:
    """Give a key a limit of its own, or take it away."""
    text = fields.get("concurrency", "").strip()
    limit = _whole(text, "the limit of a key") if text else None
    await app.queue(fields["queue"]).limit_key(fields["key"], limit)
    return Note(f"Key {fields['key']} " + (f"runs at most {limit} at once" if limit else "has the queue's own limit"))


async def trigger(app: Holdfast, fields: Fields) -> Note:
    """Enqueue one more job of a schedule."""
    handle = await app.schedules.trigger(fields["name"], queue=fields["queue"])
    return Note(f"{fields['name']} was triggered: job {handle.id} is {handle.status}")


async def pause_schedule(app: Holdfast, fields: Fields) -> Note:
    """Pause a schedule."""
    await app.schedules.pause(fields["name"], queue=fields["queue"])
    return Note(f"{fields['name']} is paused: no tick fires until it is resumed", "warn")


async def resume_schedule(app: Holdfast, fields: Fields) -> Note:
    """Resume a schedule."""
    await app.schedules.resume(fields["name"], queue=fields["queue"])
    return Note(f"{fields['name']} is resumed, from its next tick on")


async def change_schedule(app: Holdfast, fields: Fields) -> Note:
    """Change when a schedule ticks, and its rules."""
    text = fields.get("spec", "").strip()
    changed = await app.schedules.change(
        fields["name"], queue=fields["queue"], spec=_spec(text, fields.get("tz", "")) if text else None,
        overlap=cast("Overlap | None", fields.get("overlap") or None),
        catch_up=cast("CatchUp | None", fields.get("catch_up") or None),
    )  # fmt: skip
    return Note(f"{fields['name']} is due {changed.spec}")


async def clear_schedule(app: Holdfast, fields: Fields) -> Note:
    """Take the changes of a schedule away."""
    found = await app.schedules.get(fields["name"], queue=fields["queue"])
    names = {"grace_ms": "grace"}
    known = ("spec", "catch_up", "limit", "grace", "overlap")
    clear = [names.get(name, name) for name in found.changes]
    await app.schedules.change(
        fields["name"], queue=fields["queue"],
        clear=[*(each for each in clear if each in known), *(["call"] if set(clear) - set(known) else [])],
    )  # fmt: skip
    return Note(f"{fields['name']} is as the code declares it")


async def remove_schedule(app: Holdfast, fields: Fields) -> Note:
    """Remove a schedule that was added live."""
    await app.schedules.remove(fields["name"], queue=fields["queue"])
    return Note(f"{fields['name']} is removed")


class EndsWorkers(Protocol):
    """An app whose store can tell workers to end."""

    async def stop_worker(self, worker: str, *, drain: bool = True) -> list[str]:
        """Tell a worker to end; return the sessions that were told."""


async def drain_worker(app: Holdfast, fields: Fields) -> Note:
    """Let a worker end what it runs, and then end itself."""
    return _told(await cast(EndsWorkers, app).stop_worker(fields["worker"], drain=True), "drains, and then ends")


async def stop_worker(app: Holdfast, fields: Fields) -> Note:
    """Let a worker end without a drain."""
    return _told(
        await cast(EndsWorkers, app).stop_worker(fields["worker"], drain=False), "gives back what it runs, and ends"
    )


def _told(names: list[str], what: str) -> Note:
    return Note(f"The worker {what}: it hears of it within a heartbeat") if names else Note(
        "Nothing was done: that worker is not alive any more", "bad")  # fmt: skip


ACTIONS: dict[str, Action] = {
    "job-promote": promote,
    "job-cancel": cancel,
    "job-requeue": requeue,
    "job-delete": delete,
    "chain-complete": complete,
    "queue-pause": pause_queue,
    "queue-resume": resume_queue,
    "queue-set": set_queue,
    "queue-clear": clear_queue,
    "key-limit": limit_key,
    "schedule-trigger": trigger,
    "schedule-pause": pause_schedule,
    "schedule-resume": resume_schedule,
    "schedule-change": change_schedule,
    "schedule-clear": clear_schedule,
    "schedule-remove": remove_schedule,
    "worker-drain": drain_worker,
    "worker-stop": stop_worker,
}


def _said(reply: Reply, done: str) -> Note:
    return Note(done) if reply is Reply.OK else Note(f"Nothing was done: {SAID[reply]}", "bad")


def _label(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _setting(name: str, text: str) -> object:
    if name in ("rate", "key_rate"):
        return parse_rate(text) if text else None
    if name in ("concurrency", "key_concurrency"):
        return _whole(text, name) if text else None
    if name == "priority":
        return _whole(text or "0", name)
    raise ConfigError(f"{name!r} is not set on a page: use `holdfast queues set`")


def _whole(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{name}={text!r}: a whole number, or nothing for no limit") from None


def parse_rate(text: str) -> Rate:
    """Return the rate that a form says: `10/s`, `100 per min`, `10/s burst 20`."""
    found = _RATE.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"rate={text!r}: write how many in what time, such as 10/s, 100/min or 10/s burst 20")
    count, many, unit, burst = found.groups()
    try:
        seconds = float(many or 1) * _SECONDS[(unit or "s").lower()]
        return Rate(float(count), per=seconds, burst=int(burst) if burst else None)
    except ValueError:
        raise ConfigError(f"rate={text!r}: the numbers in it cannot be read") from None


def _spec(text: str, zone: str) -> Spec:
    word: Literal["every"] = "every"
    if text.lower().startswith(word):
        try:
            return Every(float(text[len(word) :].strip().removesuffix("s").strip()))
        except ValueError:
            raise ConfigError(f"{text!r}: write every and a number of seconds, such as every 90") from None
    return Cron(text, zone.strip() or "UTC")
