"""Rows as jobs: what a column means, and which id a row has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any

import msgspec
import pyarrow as pa

from ..codec import codec as find_codec
from ..codec.plain import kinds_of
from ..core.duration import instant_ms
from ..core.limit import check_priority
from ..core.size import fit_payload
from ..errors import ConfigError, PayloadError
from ..option import check_text
from ..store.contract import NewJob
from ..task import Task
from .order import Order

Encode = Callable[[dict[str, Any]], bytes]
_canonical = msgspec.json.Encoder(enc_hook=repr, order="sorted").encode


class Rows:
    """Makes jobs of rows. The ids of a write begin with its name, unless a column has them."""

    def __init__(self, order: Order, prefix: str, task: Task[Any, Any] | None = None) -> None:
        self._order = order
        self._prefix = prefix
        self._aside = tuple(sorted(order.set_aside.values()))
        self._title = f"{task.name}()" if task else (order.task or f"queue {order.queue}")
        self._hints: dict[str, Any] = dict(task.signature.type.__annotations__) if task else {}
        self._encode = _encoder(order, task)
        self._ttl_ms = max(order.hold_ms, order.result_ttl_ms or 0)

    def jobs(self, batch: pa.RecordBatch) -> Iterator[NewJob]:
        """Yield a job for each row; raise for one that does not fit, and say which."""
        names = batch.schema.names
        columns = [_values(column, self._hints.get(name)) for name, column in zip(names, batch.columns, strict=True)]
        for values in zip(*columns, strict=True):
            row = dict(zip(names, values, strict=True))
            try:
                job = self._job(row)
            except (PayloadError, ConfigError, TypeError) as error:
                raise self._misfit(row, error) from error
            yield job

    def _job(self, row: dict[str, Any]) -> NewJob:
        order, aside = self._order, self._aside
        if not aside:
            payload = self._encode(row)
            id = self._id(row, payload)
            return NewJob(
                id=id, task=order.task, payload=payload, priority=order.priority, result_ttl_ms=self._ttl_ms
            )  # fmt: skip
        payload = self._encode({name: value for name, value in row.items() if name not in aside})
        run_at = row[order.run_at_column] if order.run_at_column else None
        priority = row[order.priority_column] if order.priority_column else None
        key = row[order.key_column] if order.key_column else None
        return NewJob(
            id=self._id(row, payload),
            task=order.task,
            payload=payload,
            run_at_ms=None if run_at is None else instant_ms(run_at),
            priority=order.priority if priority is None else check_priority(priority),
            key=None if key is None else check_text(str(key), "key", "a concurrency key"),
            result_ttl_ms=self._ttl_ms,
        )

    def _id(self, row: dict[str, Any], payload: bytes) -> str:
        order = self._order
        if order.id_column is not None:
            value = row[order.id_column]
            return check_text("" if value is None else str(value), order.id_column, "an id")
        digest = blake2b(payload, digest_size=16) if not order.hash_columns else blake2b(digest_size=16)
        for column in order.hash_columns or self._aside:
            digest.update(_canonical([column, row[column]]))
        return f"{self._prefix}:{digest.hexdigest()}"

    def _misfit(self, row: dict[str, Any], error: Exception) -> PayloadError:
        shown = ", ".join(f"{name}={_short(value)}" for name, value in row.items())
        return PayloadError(
            f"{self._order.what}: the row ({shown}) does not fit {self._title}: {error}; "
            "mend or filter such rows and write again under the same name: rows that are in are not enqueued twice",
            path=getattr(error, "path", ""),
        )


def _encoder(order: Order, task: Task[Any, Any] | None) -> Encode:
    if task is not None:
        return lambda arguments: task.encode((), arguments)
    plain, whose = find_codec(order.codec), order.task or f"queue {order.queue!r}"
    return lambda arguments: fit_payload(plain.encode(arguments, Any, path="payload"), order.max_payload, whose)


def _values(column: pa.Array, hint: Any) -> list[Any]:
    """The values of a column. Maps are dicts, and structs are what their argument is annotated with."""
    values: list[Any] = column.to_pylist(maps_as_pydicts="strict" if pa.types.is_nested(column.type) else None)
    if hint is None or kinds_of(hint) is not None or not pa.types.is_nested(column.type):
        return values
    codec = find_codec("json")
    try:
        return [None if value is None else codec.decode(msgspec.json.encode(value), hint) for value in values]
    except Exception:
        return values  # encoding the row says which one, and why


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
