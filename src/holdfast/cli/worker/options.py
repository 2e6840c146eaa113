"""The options of `holdfast worker`, as one value."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import cast

from ...app.app import Holdfast
from ...app.loader import load_app
from ...app.options import WORKER_COMMAND_OPTIONS, WorkerOptions
from ...errors import ConfigError
from ...telemetry.health.port import LOOPBACK
from ...telemetry.line_handler import FormatName
from ...worker.worker import Worker
from ..command import GivenOptions
from ..output import note_unknown_queues
from ..parse import seconds

EMPTY = "empty"


@dataclass(frozen=True)
class WorkerCommand:
    """The options of `holdfast worker`."""

    target: str | None
    queues: tuple[str, ...] | None
    slots: int
    processes: int
    burst: bool
    lease: float | None
    drain: float
    name: str | None
    uvloop: bool | None
    log_level: str
    as_json: bool
    on: str
    master: str | None
    pool: int | None = None
    recycle_jobs: int | None = None
    recycle_memory: int | None = None
    on_stuck: str = "keep"
    on_evicted: str = "restart"
    grace: float = 5.0
    poll: float = 1.0
    wedged_after: float | None = None
    heartbeat: float | None = None
    claim_interval: float = 0.0
    guard: bool = True
    quiet: bool = False
    log_jobs: bool = True
    log_format: FormatName = "human"
    metrics_port: int | str | None = None
    health_port: int | str | None = None
    metrics_host: str = LOOPBACK
    development: bool | None = None
    reload: bool = False
    reload_dir: tuple[str, ...] = ()
    reload_include: tuple[str, ...] = ()
    reload_grace: float = 2.0

    @property
    def options(self) -> WorkerOptions:
        """The options of `app.worker`, by name."""
        return cast(WorkerOptions, {name: getattr(self, name) for name in WORKER_COMMAND_OPTIONS})

    def worker(self, app: Holdfast) -> Worker:
        """Return the worker, not yet running."""
        return app.worker(self.queues, **self.options)

    def app(self) -> Holdfast:
        """Return the app that the argument or HOLDFAST_APP names."""
        return load_app(self.app_path)

    @property
    def app_path(self) -> str:
        """The app's import path, by the argument or HOLDFAST_APP."""
        target = self.target or os.environ.get("HOLDFAST_APP")
        if not target:
            raise ConfigError("which app? Write holdfast worker module:app, or set HOLDFAST_APP=module:app")
        return target

    def note_unknown(self, app: Holdfast) -> None:
        """Say which queues the app does not declare. They are served all the same: another app may fill them."""
        note_unknown_queues(self.queues, app.registry.queues)

    @property
    def words(self) -> list[str]:
        """The words of the command line of each of several processes, besides its options."""
        uvloop = [] if self.uvloop is None else ["--uvloop" if self.uvloop else "--no-uvloop"]
        logs = ["--log-level", self.log_level, "--log-format", self.log_format]
        return [*logs, *uvloop, *["--json"] * self.as_json]


def parse_command(given: GivenOptions) -> WorkerCommand:
    """Return the options as one value. `--drain` alone means what `--burst` means."""
    until_empty = given["drain"] == EMPTY
    drain = seconds("30" if until_empty else given["drain"], "--drain")
    return WorkerCommand(**{**given, "drain": drain, "burst": given["burst"] or until_empty})
