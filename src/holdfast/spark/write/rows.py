"""Make jobs of rows: what a column means, and which id a row has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any

import msgspec
import pyarrow as pa

from ...app.task import AnyTask
from ...codec import codec as find_codec
from ...codec.plain import kinds_of
from ...core.duration import instant_ms
from ...core.envelope import Envelope, check_tags
from ...core.limit import check_priority
from ...core.size import fit_payload
from ...core.word import check_text
from ...errors import ConfigError, PayloadError
from ...store.contract import NewJob
from ...telemetry.traces.w3c import PARENT
from .options import WriteOptions
from .plain_rows import PlainRows

Row = dict[str, Any]  # a cell may hold anything that Spark has
Encode = Callable[[Row], bytes]
MANY = 1_000_000
"""With how many jobs a row's job is sent, for its trace: an executor does not know, and a write is a bulk."""
_canonical = msgspec.json.Encoder(enc_hook=repr, order="sorted").encode


class RowEncoder:
    """Make a job of each row. Its id begins with the name of the write, unless a column has ids."""

    def __init__(self, options: WriteOptions, prefix: str, task: AnyTask | None = None) -> None:
        self._options = options
        self._prefix = prefix
        self._aside = tuple(sorted(options.set_aside.values()))
        self._title = f"{task.name}()" if task else (options.task or f"queue {options.queue}")
        self._hints: dict[str, object] = dict(task.signature.type.__annotations__) if task else {}
        self._encode = _encoder(options, task)
        self._plain = None if self._aside or options.hash_columns else PlainRows(options, task)
        batch = MANY if PARENT in options.headers else 1
        self._with_headers = Envelope(tags=options.tags, headers=options.headers, batch=batch)
        self._envelope = self._with_headers.encoded()
        self._ttl_ms = max(options.hold_ms, options.result_ttl_ms or 0)

    def jobs(self, batch: pa.RecordBatch) -> Iterator[NewJob]:
        """Yield a job for each row; raise for one that does not fit, and say which."""
        names = batch.schema.names
        columns = [_values(column, self._hints.get(name)) for name, column in zip(names, batch.columns, strict=True)]
        payloads = None if self._plain is None else self._plain.payloads(batch, columns)
        if payloads is not None:
            yield from map(self._plain_job, payloads)
            return
        for values in zip(*columns, strict=True):
            row = dict(zip(names, values, strict=True))
            try:
                job = self._job(row)
            except (PayloadError, ConfigError, TypeError) as error:
                raise self._misfit(row, error) from error
            yield job

    def _plain_job(self, payload: bytes, id: str = "") -> NewJob:
        """Return the job of a row that is nothing but arguments."""
        options = self._options
        return NewJob(
            id=id or f"{self._prefix}:{blake2b(payload, digest_size=16).hexdigest()}",
            task=options.task,
            payload=payload,
            priority=options.priority,
            result_ttl_ms=self._ttl_ms,
            envelope=self._envelope,
        )

    def _job(self, row: Row) -> NewJob:
        options, aside = self._options, self._aside
        if not aside:
            payload = self._encode(row)
            return self._plain_job(payload, self._id(row, payload))
        payload = self._encode({name: value for name, value in row.items() if name not in aside})
        run_at = row[options.run_at_column] if options.run_at_column else None
        priority = row[options.priority_column] if options.priority_column else None
        key = row[options.key_column] if options.key_column else None
        if key is None and options.key_required:
            raise ConfigError(f"{options.key_column!r} is null, and its jobs must have a key (key_required)")
        return NewJob(
            id=self._id(row, payload),
            task=options.task,
            payload=payload,
            run_at_ms=None if run_at is None else instant_ms(run_at),
            priority=options.priority if priority is None else check_priority(priority),
            key=None if key is None else check_text(str(key), "key", "a concurrency key"),
            result_ttl_ms=self._ttl_ms,
            envelope=self._tagged(row[options.tags_column]) if options.tags_column else self._envelope,
        )

    def _tagged(self, tags: str | list[str] | None) -> bytes | None:
        """Return the envelope of a row that has tags of its own."""
        own = [tags] if isinstance(tags, str) else tags or []
        if not own:
            return self._envelope
        return msgspec.structs.replace(self._with_headers, tags=check_tags([*self._options.tags, *own])).encoded()

    def _id(self, row: Row, payload: bytes) -> str:
        options = self._options
        if options.id_column is not None:
            value = row[options.id_column]
            return check_text("" if value is None else str(value), options.id_column, "an id")
        digest = blake2b(payload, digest_size=16) if not options.hash_columns else blake2b(digest_size=16)
        for column in options.hash_columns or self._aside:
            digest.update(_canonical([column, row[column]]))
        return f"{self._prefix}:{digest.hexdigest()}"

    def _misfit(self, row: Row, error: Exception) -> PayloadError:
        shown = ", ".join(f"{name}={_short(value)}" for name, value in row.items())
        return PayloadError(
            f"{self._options.what}: the row ({shown}) does not fit {self._title}: {error}; "
            "mend or filter such rows and write again under the same name: rows that are in are not enqueued twice",
            path=getattr(error, "path", ""),
        )


def _encoder(options: WriteOptions, task: AnyTask | None) -> Encode:
    if task is not None:
        return lambda arguments: task.encode((), arguments)
    plain, whose = find_codec(options.codec), options.task or f"queue {options.queue!r}"
    return lambda arguments: fit_payload(plain.encode(arguments, Any, path="payload"), options.max_payload, whose)


def _values(column: pa.Array, hint: object) -> list[object]:
    """Return the values of a column: maps as dicts, structs as the type that their argument is annotated with."""
    values: list[object] = column.to_pylist(maps_as_pydicts="strict" if pa.types.is_nested(column.type) else None)
    if hint is None or kinds_of(hint) is not None or not pa.types.is_nested(column.type):
        return values
    codec = find_codec("json")
    try:
        return [None if value is None else codec.decode(msgspec.json.encode(value), hint) for value in values]
    except Exception:
        return values  # encoding the row says which one, and why


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
