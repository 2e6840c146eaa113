"""The options of a write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from ...app.registry import check_queue_name
from ...codec import codec
from ...core.duration import to_ms
from ...core.envelope import check_headers, check_tags
from ...core.limit import check_priority
from ...core.size import DEFAULT_SIZE, check_size
from ...core.word import check_text
from ...errors import ConfigError
from ..store_url import refuse_memory

HOLD = 24 * 3600.0
"""Seconds for which a write's ids and results are held after its jobs are over."""
CHUNK = 1000
"""Jobs in one call of a server, which serves no other call meanwhile."""
FILE_CHUNK = 4000
"""Jobs in one transaction of a file: each transaction writes every page of its index that an id falls on."""
_SPARKS_OWN = ("checkpointlocation", "path", "queryname", "outputmode")
_NAMES = {
    "url": "url", "app": "app", "task": "task", "queue": "queue", "name": "name", "codec": "codec",
    "idcolumn": "id_column", "runatcolumn": "run_at_column", "prioritycolumn": "priority_column",
    "keycolumn": "key_column", "tags": "tags", "tagscolumn": "tags_column", "headers": "headers",
    "hashcolumns": "hash_columns", "priority": "priority", "hold": "hold_ms",
    "chunk": "chunk", "until": "until", "folder": "folder", "maxpayload": "max_payload",
}  # fmt: skip
OPTIONS = (
    "url", "app", "task", "queue", "name", "codec", "idColumn", "runAtColumn", "priorityColumn", "keyColumn", "tags",
    "tagsColumn", "headers", "hashColumns", "priority", "hold", "until", "chunk", "folder",
    "maxPayload",
)  # fmt: skip

Value = str | int | tuple[str, ...] | dict[str, str]


@dataclass(frozen=True)
class WriteOptions:
    """Of which task, queue and store the jobs of a write are, and what its columns mean."""

    url: str = field(default="", repr=False)
    app: str | None = None
    task: str | None = None
    queue: str = ""
    name: str | None = None
    codec: str = "json"
    id_column: str | None = None
    run_at_column: str | None = None
    priority_column: str | None = None
    key_column: str | None = None
    tags: tuple[str, ...] = ()
    """Of every job; a column may add more."""
    tags_column: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    """Of every job."""
    hash_columns: tuple[str, ...] = ()
    priority: int = 0
    hold_ms: int = round(HOLD * 1000)
    until: str = "commit"
    chunk: int | None = None
    max_payload: int = DEFAULT_SIZE
    """The most bytes of a payload, where no app is given whose task says it."""
    key_required: bool = False
    """Whether every row must have a key, as the app says."""
    result_ttl_ms: int | None = None
    """How long the task keeps its results by itself; `None`: as its queue says."""
    folder: str = ""
    """The folder of the app's module, or of the driver."""
    machine: str = ""

    @property
    def set_aside(self) -> dict[str, str]:
        """The columns that are not arguments, by the option that names them."""
        named = {
            "idColumn": self.id_column,
            "runAtColumn": self.run_at_column,
            "priorityColumn": self.priority_column,
            "keyColumn": self.key_column,
            "tagsColumn": self.tags_column,
        }
        return {option: column for option, column in named.items() if column is not None}

    @property
    def chunk_size(self) -> int:
        """How many rows one call to the store carries."""
        return self.chunk or (FILE_CHUNK if self.to_file else CHUNK)

    @property
    def to_file(self) -> bool:
        """True when the store is a file of SQLite."""
        return self.url.startswith("sqlite")

    @property
    def what(self) -> str:
        """The write's name in messages."""
        return f"write {self.name!r}" if self.name else "write"


def parse_options(given: Mapping[str, str]) -> WriteOptions:
    """Return the options of a write; raise for one that is unknown or cannot be right."""
    fields: dict[str, Value] = {}
    for option, text in given.items():
        field = _NAMES.get(option.lower())
        if field is not None:
            fields[field] = _value(field, text)
        elif option.lower() not in _SPARKS_OWN:
            raise ConfigError(f'option("{option}"): format("holdfast") writes with {", ".join(OPTIONS)}')
    if fields.get("id_column") and fields.get("hash_columns"):
        raise ConfigError('option("hashColumns"): the ids come from idColumn already; give one of the two')
    return msgspec.convert(fields, WriteOptions)


def _value(field: str, text: str) -> Value:
    if field == "hash_columns":
        return _words(text)
    if field == "tags":
        return check_tags(_json_list(text) if text.startswith("[") else _words(text))
    if field == "headers":
        return check_headers(_json_object(text))
    if field == "hold_ms":
        return to_ms(_number("hold", text), "hold")
    if field == "max_payload":
        return check_size(_whole("maxPayload", text, 1), "maxPayload")
    if field == "chunk":
        return _whole("chunk", text, 1)
    if field == "priority":
        return check_priority(_whole("priority", text, -1000))
    if field == "queue":
        return check_queue_name(text)
    if field == "name":
        return check_text(text, "name", "the name of a write")
    if field == "until" and text not in ("commit", "hold"):
        raise ConfigError(f'option("until", {text!r}): "commit" or "hold"')
    if field == "codec":
        codec(text)
    if field == "url":
        refuse_memory(text)
    return text


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _json_list(text: str) -> list[str]:
    try:
        return msgspec.json.decode(text, type=list[str])
    except msgspec.MsgspecError:
        raise ConfigError(f'option("tags", {text!r}): words with commas between them, or a JSON array') from None


def _json_object(text: str) -> dict[str, str]:
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.MsgspecError:
        raise ConfigError(f'option("headers", {text!r}): a JSON object of strings') from None


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f'option("{option}", {text!r}): a number') from None


def _whole(option: str, text: str, least: int) -> int:
    if not re.fullmatch(r"-?\d+", text) or int(text) < least:
        raise ConfigError(f'option("{option}", {text!r}): a whole number from {least}')
    return int(text)
