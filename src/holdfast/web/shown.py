"""Jobs, chains, schedules and events as callers see them: the JSON of the command line, without what is hidden."""

from __future__ import annotations

import asyncio
from typing import Literal

import msgspec

from ..app.app import Holdfast
from ..core.event import Event
from ..core.job import JobRecord
from ..core.schedule import Schedule
from ..json import form as json_form
from ..json.form import JsonObject
from ..store.contract import BlockerRecord, ChainRecord
from .redact import JsonValue, Redactor, pruned

Part = Literal["payload", "result", "checkpoint"]
PARTS: tuple[Part, ...] = ("payload", "result", "checkpoint")
SHOWN_TICKS = 5


class Shown:
    """Makes what is shown; used by the API and by the pages, so that both hide the same."""

    def __init__(self, app: Holdfast, redactor: Redactor, most: int) -> None:
        self._app = app
        self._redactor = redactor
        self._most = most

    def job(self, record: JobRecord) -> JsonObject:
        """Return a job as a list shows it."""
        return json_form.job(record)

    async def job_whole(self, record: JobRecord) -> JsonObject:
        """Return a job with everything that the store keeps of it; what is large is cut."""
        found = {**json_form.job(record), "error": self.error(record)}
        found["headers"] = self._redactor.headers(record.headers)
        cut: JsonObject = {}
        for part in PARTS:
            data = getattr(record, part)
            found[part] = None
            if data is not None and len(data) > self._most:
                preview = await asyncio.to_thread(self._preview, record, part)
                cut[part] = {"bytes": len(data), "preview": preview}
            elif data is not None:
                found[part] = self.part(record, part)
        return {**found, "truncated": cut}

    def part(self, record: JobRecord, part: Part) -> JsonValue:
        """Return the whole payload, result or checkpoint of a job."""
        return self._redactor.value(self._decoded(record, part), record.task, record.queue)

    def _decoded(self, record: JobRecord, part: Part) -> JsonValue:
        codec = "result_codec" if part == "result" else "codec"
        if part == "checkpoint" and record.checkpoint is not None:
            return json_form.untyped("json", record.checkpoint)
        return json_form.decoded(self._app, record, codec, getattr(record, part))

    def _preview(self, record: JobRecord, part: Part) -> str:
        """Return how a large part begins, as JSON. Only what is shown is looked at for what must be hidden."""
        small = pruned(self._decoded(record, part), self._most)
        shown = self._redactor.value(small, record.task, record.queue)
        return msgspec.json.encode(shown)[: self._most].decode("utf-8", "ignore")

    def error(self, record: JobRecord | ChainRecord) -> JsonObject | None:
        """Return the whole error of a job or chain."""
        if record.error is None:
            return None
        whole: JsonObject = msgspec.to_builtins(record.error)
        return {**whole, "fields": self._redactor.value(whole["fields"], record.task)}

    def chain_result(self, record: ChainRecord) -> JsonValue:
        """Return the result of a chain."""
        value = json_form.chain_result(self._app, record)
        return self._redactor.value(value, record.task, record.ref.queue)

    def blocker(self, record: BlockerRecord) -> JsonObject:
        """Return a chain that a job waits for."""
        error = record.error
        return {
            **msgspec.to_builtins(record.ref),
            "state": record.state,
            "error": {"type": error.type, "message": error.message, "kind": error.kind} if error else None,
        }

    def event(self, event: Event) -> JsonObject:
        """Return an event."""
        found = json_form.event(event)
        if event.payload is not None:
            found["payload"] = self._redactor.value(found["payload"], event.task, event.queue)
        return found

    def schedule(self, found: Schedule) -> JsonObject:
        """Return a schedule, with its next ticks."""
        shown = json_form.schedule_detail(self._app, found, SHOWN_TICKS)
        return {**shown, "payload": self._redactor.value(shown["payload"], found.task, found.queue)}
