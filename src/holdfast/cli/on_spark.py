"""`holdfast worker --on spark`: a fleet of workers as Spark tasks, stopped and told of like any other."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
import msgspec

from ..errors import ConfigError
from ..store import shown
from .show import json_line, say

if TYPE_CHECKING:
    from ..spark.fleet import Fleet, WorkerReport
    from .worker import Order


def run_fleet(order: Order) -> None:
    """The fleet has run, and a line says what each worker did."""
    from ..spark import fleet  # Spark is large, and few commands need it

    _refuse(order)
    app = order.app()
    order.note_unknown(app)
    made = fleet(
        order.app_path, master=order.master, queues=order.queues, workers=order.processes, slots=order.slots,
        lease=order.lease, drain=order.drain, name=order.name,
    )  # fmt: skip
    told = {"fleet": made.name, "url": shown(app.store.url), "queues": list(made.queues), "workers": order.processes}
    if order.as_json:
        json_line({"event": "started", **told, "slots": order.slots})
    else:
        say(f"fleet {made.name}: {order.processes} workers of {order.slots} slots serve {', '.join(made.queues)}")
    with _signals(made):
        reports = made.drain() if order.burst else made.wait()
    for report in reports:
        _say(order, report)


def _refuse(order: Order) -> None:
    """What only workers of this machine have is not passed over in silence."""
    given = {
        "--uvloop": order.uvloop is True, "--no-uvloop": order.uvloop is False, "--pool": order.pool is not None,
        "--recycle-jobs": order.recycle_jobs is not None, "--recycle-memory": order.recycle_memory is not None,
        "--on-stuck": order.on_stuck != "keep", "--no-guard": not order.guard,
    }  # fmt: skip
    for option in (option for option, here in given.items() if here):
        raise ConfigError(f"{option}: workers on Spark have none of it; leave it out")


def _say(order: Order, report: WorkerReport) -> None:
    if order.as_json:
        json_line({"event": "stopped", **msgspec.to_builtins(report)})
    else:
        click.echo(str(report))


@contextmanager
def _signals(made: Fleet) -> Iterator[None]:
    """SIGTERM and Ctrl-C stop the fleet, a second one without its drain; the block goes on until it has ended."""
    asked = iter((made.ask_to_stop,))

    def stop(number: int, frame: object) -> None:
        # not in this frame, which may hold the very lock that the call needs
        threading.Thread(target=next(asked, made.hurry), daemon=True).start()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
