"""`holdfast worker --on spark`: a fleet of workers as Spark tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import click
import msgspec

from ...errors import ConfigError
from ...store import shown
from ...worker.signals import heard
from ..output import json_line, say

if TYPE_CHECKING:
    from ...spark.fleet.fleet import Fleet, WorkerReport
    from .options import WorkerCommand


def run_fleet(command: WorkerCommand) -> None:
    """Run a fleet until it is stopped, and print what each worker did."""
    from ...spark import fleet  # Spark is large, and few commands need it

    _refuse(command)
    app = command.app()
    command.note_unknown(app)
    made = fleet(
        command.app_path, master=command.master, queues=command.queues, workers=command.processes, slots=command.slots,
        lease=command.lease, drain=command.drain, name=command.name, log_jobs=command.log_jobs,
        log_level=command.log_level, log_format=command.log_format,
    )  # fmt: skip
    told = {"fleet": made.name, "url": shown(app.store.url), "queues": list(made.queues), "workers": command.processes}
    if command.as_json:
        json_line({"event": "started", **told, "slots": command.slots})
    else:
        say(f"fleet {made.name}: {command.processes} workers of {command.slots} slots serve {', '.join(made.queues)}")
    with heard(_stopping(made)):
        reports = made.drain() if command.burst else made.wait()
    for report in reports:
        _say_report(command, report)


def _refuse(command: WorkerCommand) -> None:
    """Raise for options that workers on Spark do not have."""
    given = {
        "--uvloop": command.uvloop is True, "--no-uvloop": command.uvloop is False, "--pool": command.pool is not None,
        "--recycle-jobs": command.recycle_jobs is not None, "--recycle-memory": command.recycle_memory is not None,
        "--on-stuck": command.on_stuck != "keep", "--no-guard": not command.guard,
        "--metrics-port": command.metrics_port is not None, "--health-port": command.health_port is not None,
    }  # fmt: skip
    for option in (option for option, here in given.items() if here):
        raise ConfigError(f"{option}: workers on Spark have none of it; leave it out")


def _say_report(command: WorkerCommand, report: WorkerReport) -> None:
    if command.as_json:
        json_line({"event": "stopped", **msgspec.to_builtins(report)})
    else:
        click.echo(str(report))


def _stopping(made: Fleet) -> Callable[[int], None]:
    """Return a signal handler: the first signal stops the fleet, a second one skips the drain."""
    asked = iter((made.ask_to_stop,))

    def stop(number: int) -> None:
        # not in this frame, which may hold the very lock that the call needs
        threading.Thread(target=next(asked, made.hurry), daemon=True).start()

    return stop
