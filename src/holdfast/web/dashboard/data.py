"""Payloads, results and checkpoints as pages show them: decoded, redacted, and no more of them than can be read."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from ...codec import Codec, codec
from ...core.job import JobRecord
from ..site import Site
from .words import MOST_SHOWN


@dataclass(frozen=True)
class ShownData:
    """Data of a job as text."""

    text: str
    size: int
    """Bytes as stored."""
    shown: int
    cut: bool = False
    redacted: bool = False
    raw: bytes = field(default=b"", repr=False)
    """All of it, redacted, for a download."""


def shown_data(site: Site, record: JobRecord, part: str, most: int | None = MOST_SHOWN) -> ShownData | None:
    """Return the payload, result or checkpoint of a job; `None` when it has none."""
    stored: bytes | None = getattr(record, part)
    if stored is None:
        return None
    whose = (record.task, record.queue)
    choice = _codec(site, record, part)
    value, readable = _decoded(choice, stored)
    if not readable:
        hidden = site.redactor.hides_all(*whose)
        return shown_text(
            "[redacted]" if hidden else repr(stored), len(stored), most, b"[redacted]" if hidden else stored
        )
    kept = site.redactor.value(value, *whose)
    raw = msgspec.json.format(msgspec.json.encode(kept), indent=2)
    made = shown_text(raw.decode(), len(stored), most, raw)
    return made if kept == value else ShownData(made.text, made.size, made.shown, made.cut, True, raw)


def shown_text(text: str, size: int | None = None, most: int | None = MOST_SHOWN, raw: bytes = b"") -> ShownData:
    """Return text, cut where it is longer than a page should be."""
    cut = most is not None and len(text) > most
    part = text[:most] if cut else text
    return ShownData(part, len(text) if size is None else size, len(part), cut, False, raw)


def _codec(site: Site, record: JobRecord, part: str) -> str | Codec:
    task = site.app.registry.tasks.get(record.task or "")
    if task is None or part == "checkpoint":
        return "json"
    return task.codec if part == "payload" else task.result_codec


def _decoded(choice: str | Codec, data: bytes) -> tuple[object, bool]:
    """Return the value that bytes hold, and whether they could be read."""
    try:
        value = msgspec.to_builtins(codec(choice).decode(data))
        msgspec.json.encode(value)
    except Exception:  # a user's codec may raise anything
        return None, False
    return value, True
