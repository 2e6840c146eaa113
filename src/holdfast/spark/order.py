"""What the options of a write say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..codec import codec
from ..core.duration import to_ms
from ..core.limit import check_priority
from ..core.size import DEFAULT_SIZE, check_size
from ..errors import ConfigError
from ..option import check_text
from ..registry import check_queue_name
from ..store import shown

HOLD = 24 * 3600.0
"""For how long, in seconds, a write's ids and results are held after its jobs are over."""
CHUNK = 1000
"""Jobs in one call of a server, which does nothing else meanwhile."""
FILE_CHUNK = 4000
"""Jobs in one transaction of a file: each transaction writes every page of its index that an id falls on."""
_SPARKS_OWN = ("checkpointlocation", "path", "queryname", "outputmode")
_NAMES = {
    "url": "url", "app": "app", "task": "task", "queue": "queue", "name": "name", "codec": "codec",
    "idcolumn": "id_column", "runatcolumn": "run_at_column", "prioritycolumn": "priority_column",
    "keycolumn": "key_column", "hashcolumns": "hash_columns", "priority": "priority", "hold": "hold_ms",
    "chunk": "chunk", "until": "until", "folder": "folder", "maxpayload": "max_payload",
}  # fmt: skip
OPTIONS = (
    "url", "app", "task", "queue", "name", "codec", "idColumn", "runAtColumn", "priorityColumn", "keyColumn",
    "hashColumns", "priority", "hold", "until", "chunk", "folder",
    "maxPayload",
)  # fmt: skip


@dataclass(frozen=True)
class Order:
    """One job for each row: of which task, in which queue and store, and what the columns mean."""

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
    hash_columns: tuple[str, ...] = ()
    priority: int = 0
    hold_ms: int = round(HOLD * 1000)
    until: str = "commit"
    chunk: int | None = None
    max_payload: int = DEFAULT_SIZE
    """The most bytes of a plain payload, or of a task's whose app is not known; an app's task says it itself."""
    result_ttl_ms: int | None = None
    """How long the task keeps its results by itself; `None`: as its queue says."""
    folder: str = ""
    """Where the app's module is, or the driver runs."""
    machine: str = ""

    @property
    def set_aside(self) -> dict[str, str]:
        """The columns that are no arguments, by the option that names them."""
        named = {
            "idColumn": self.id_column,
            "runAtColumn": self.run_at_column,
            "priorityColumn": self.priority_column,
            "keyColumn": self.key_column,
        }
        return {option: column for option, column in named.items() if column is not None}

    @property
    def chunk_size(self) -> int:
        """How many rows go to the store at once."""
        return self.chunk or (FILE_CHUNK if self.url.partition("://")[0] == "sqlite" else CHUNK)

    @property
    def what(self) -> str:
        """How messages name the write."""
        return f"write {self.name!r}" if self.name else "write"


def read_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of a write as the fields of an `Order`; raise for one that is unknown or cannot be right."""
    given: dict[str, Any] = {}
    for option, text in options.items():
        field = _NAMES.get(option.lower())
        if field is not None:
            given[field] = _value(field, text)
        elif option.lower() not in _SPARKS_OWN:
            raise ConfigError(f'option("{option}"): format("holdfast") writes with {", ".join(OPTIONS)}')
    if given.get("id_column") and given.get("hash_columns"):
        raise ConfigError('option("hashColumns"): the ids come from idColumn already; give one of the two')
    return given


def _value(field: str, text: str) -> Any:
    if field == "hash_columns":
        return tuple(column.strip() for column in text.split(",") if column.strip())
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
    if field == "url" and text.partition("://")[0] == "memory":
        raise ConfigError(
            f"{shown(text)!r}: Spark works in other processes, which cannot see this one's memory; use sqlite://"
        )
    return text


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f'option("{option}", {text!r}): a number') from None


def _whole(option: str, text: str, least: int) -> int:
    if not re.fullmatch(r"-?\d+", text) or int(text) < least:
        raise ConfigError(f'option("{option}", {text!r}): a whole number from {least}')
    return int(text)
