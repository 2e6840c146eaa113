"""One job, as lines: what it is, what it carries, what went wrong and what happened to it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from rich.text import Text

from ...app.app import Holdfast
from ...core.event import Event
from ...core.job import JobRecord
from ...core.visible import visible, visible_json, visible_lines
from ...json import form as json_form
from ..output import duration, local_time, state_style
from .data import JobDetail

MOST_BYTES = 64 * 1024
"""A payload, result or traceback is shown up to so many bytes."""
_INSTANTS = (
    ("enqueued", "enqueued_at_ms"),
    ("may run", "run_at_ms"),
    ("started", "started_at_ms"),
    ("finished", "finished_at_ms"),
    ("expires", "expires_at_ms"),
)


def job_lines(app: Holdfast, detail: JobDetail | None, now_ms: int) -> list[Text]:
    """Return a job, line by line."""
    if detail is None:
        return [Text("reading")]
    if detail.record is None:
        return [Text("there is no such job, or it has expired")]
    record = detail.record
    return [
        *_fields(record, now_ms),
        *_data(app, record, "payload", "codec", record.payload),
        *_data(app, record, "result", "result_codec", record.result),
        *_error(record),
        *_timeline(detail.events, record),
    ]


def _line(name: str, value: object, style: str = "") -> Text:
    return Text.assemble((f"{name:<12}", "bold"), (visible(str(value)), style))


def _fields(record: JobRecord, now_ms: int) -> Iterator[Text]:
    yield _line("job", f"{record.queue}/{record.id} run {record.run}")
    yield _line("task", record.task or "(plain)")
    yield _line("state", record.state, state_style(record.state))
    for name in ("key", "worker", "priority"):
        if value := getattr(record, name):
            yield _line(name, value)
    for name, field in _INSTANTS:
        if (at := getattr(record, field)) is not None:
            ago = f"{duration(now_ms - at)} ago" if at <= now_ms else f"in {duration(at - now_ms)}"
            yield _line(name, f"{local_time(at)} ({ago})")
    counters = msgspec.to_builtins(record.counters)
    yield _line("counters", ", ".join(f"{count} {name}" for name, count in counters.items() if count) or "none")
    if record.progress is not None:
        share = "" if record.progress.fraction is None else f"{record.progress.fraction:.0%} "
        yield _line("progress", share + record.progress.message)
    if record.cancel_requested:
        yield _line("cancel", "its handler has been told to stop")
    if record.tags:
        yield _line("tags", ", ".join(record.tags))
    for name, value in record.headers.items():
        yield _line("header", f"{name}: {value}")


def _data(app: Holdfast, record: JobRecord, name: str, which: str, data: bytes | None) -> Iterator[Text]:
    if data is None:
        return
    yield Text()
    if len(data) > MOST_BYTES:
        yield _line(name, f"{len(data):,} bytes: holdfast jobs show prints them")
        return
    encoded = msgspec.json.format(msgspec.json.encode(json_form.decoded(app, record, which, data)), indent=2)
    yield Text(name, style="bold")
    yield from (Text(f"  {line}") for line in visible_json(encoded.decode("utf-8", "replace")).split("\n"))


def _error(record: JobRecord) -> Iterator[Text]:
    error = record.error
    if error is None:
        return
    yield Text()
    first, *rest = visible_lines(error.message[:MOST_BYTES]).split("\n")
    yield Text(f"{visible(error.type)}: {first} ({visible(error.kind)})", style="red")
    yield from (Text(f"  {line}", style="red") for line in rest)
    if error.traceback:
        yield from (Text(f"  {line}") for line in visible_lines(error.traceback[-MOST_BYTES:].rstrip()).split("\n"))


def _timeline(events: list[Event] | None, record: JobRecord) -> Iterator[Text]:
    yield Text()
    yield Text("what happened", style="bold")
    if events is None:
        yield Text(f"  too long a log to search now: holdfast jobs show {visible(record.queue)} {visible(record.id)}")
    for event in events or ():
        yield Text.assemble(
            f"  {local_time(event.at_ms)}  {event.transition:<9} ",
            (f"{event.state or 'gone':<10}", state_style(event.state or "")),
            visible(" ".join(_facts(event))),
        )


def _facts(event: Event) -> Iterator[str]:
    pairs = (
        ("attempt", event.attempt or None),
        ("cause", event.cause),
        ("waited", duration(event.wait_ms)),
        ("ran", duration(event.run_ms)),
        ("error", event.error_type),
        ("worker", event.worker),
    )
    return (f"{name}={value}" for name, value in pairs if value is not None)
