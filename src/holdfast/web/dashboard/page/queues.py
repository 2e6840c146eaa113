"""Queues, and one queue with its limits and keys."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ....core.declaration import View
from ....core.limit import Rate
from ....core.state import State
from ....store.contract import KeyOrder, QueueInfo
from ....telemetry.recent import TaskTraffic, Traffic
from ...problem import Problem
from ...site import site_of
from .. import words
from ..shell import show
from ..view.overview import queue_rows, throughput_plot, wait_plot

SPAN = "last 5 minutes"
KEYS_SHOWN = 50
EDITABLE = (
    ("priority", "Priority", "0"),
    ("concurrency", "Concurrency", "no limit"),
    ("key_concurrency", "Concurrency of a key", "no limit"),
    ("rate", "Rate", "10/s"),
    ("key_rate", "Rate of a key", "10/s"),
)
"""The settings that a page changes, with their labels and an example of what may be written."""


@dataclass(frozen=True)
class SettingRow:
    """A setting in force, who set it, and what the code declares."""

    name: str
    label: str
    placeholder: str
    value: str
    raw: str
    by: str
    declared: str


@dataclass(frozen=True)
class TaskRow:
    """A task of a queue, with what happened to it lately."""

    task: str | None
    traffic: Traffic

    @property
    def wrong(self) -> int:
        """Attempts that did not complete."""
        return self.traffic.failed + self.traffic.retried + self.traffic.stalled


async def queues(request: Request) -> Response:
    """Show every queue."""
    site = site_of(request)
    found, now_ms = await site.glance.queues()
    return await show(request, "queues", "queues.html", rows=queue_rows(found, site.recent, now_ms))


async def queue(request: Request) -> Response:
    """Show one queue."""
    site = site_of(request)
    name = request.query_params.get("name", "")
    found, now_ms = await site.glance.queues()
    info = next((each for each in found if each.name == name), None)
    if info is None:
        raise Problem(404, "queue-missing", f"there is no queue {name!r}: it comes with its first job or worker")
    order = _order(request.query_params.get("keys", "busiest"))
    store, recent = site.app.store, site.recent
    layers = await store.layers(name)
    chart = recent.chart(name, "second")
    return await show(
        request, "queues", "queue.html", info=info, layers=layers, settings=_settings(info, layers),
        states=[str(state) for state in State], order=order, keys=await store.keys(name, order=order, limit=KEYS_SHOWN),
        tasks=_tasks(recent.tasks(name), layers), throughput=throughput_plot(chart, SPAN), waits=wait_plot(chart, SPAN),
        oldest_age_ms=None if info.oldest_waiting_ms is None else max(0, now_ms - info.oldest_waiting_ms),
    )  # fmt: skip


def _order(text: str) -> KeyOrder:
    if text in ("busiest", "starved", "name"):
        return text  # type: ignore[return-value]
    raise Problem(400, "bad-request", f"keys={text!r}: busiest, starved or name")


def _tasks(traffic: list[TaskTraffic], layers: View) -> list[TaskRow]:
    """Return the tasks that ran lately, and those that are declared."""
    seen = {each.task for each in traffic}
    quiet = [TaskRow(task, Traffic(seconds=300)) for task in sorted(layers.tasks) if task not in seen]
    return [TaskRow(each.task, each.traffic) for each in traffic] + quiet


def _settings(info: QueueInfo, layers: View) -> list[SettingRow]:
    made = []
    for name, label, placeholder in EDITABLE:
        by = "operator" if name in layers.operator else "code" if name in layers.declared else "default"
        declared = layers.declared.get(name)
        made.append(
            SettingRow(
                name, label, placeholder, _text(getattr(info.settings, name)), _raw(getattr(info.settings, name)), by,
                _declared(declared) if name in layers.declared else words.NONE,
            )
        )  # fmt: skip
    return made


def _declared(value: object) -> str:
    return _text(msgspec.convert(value, Rate) if isinstance(value, dict) else value)


def _text(value: object) -> str:
    if value is None:
        return "no limit"
    return (
        words.per_time(value)
        if isinstance(value, Rate)
        else words.count(value)
        if isinstance(value, int)
        else str(value)
    )


def _raw(value: object) -> str:
    """Return a value as the form takes it."""
    if isinstance(value, Rate):
        return words.per_time(value)
    return "" if value is None else str(value)
