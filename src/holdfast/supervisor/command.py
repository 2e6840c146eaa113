"""The command of a worker process, by the options of a worker."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta

from ..app.options import OF_A_PROGRAM, WorkerOptions
from ..distribution import require
from ..errors import ConfigError


def worker_command(app: str, queues: Sequence[str] | None, options: WorkerOptions) -> list[str]:
    """Return what starts a worker with these options; each is one of `holdfast worker` by the same name."""
    require("a worker process", "click", "rich", extra="cli")
    words = [sys.executable, "-m", "holdfast", "worker", app]
    words += ["--queues", ",".join(queues)] if queues else []
    for name, value in options.items():
        words += _words(name, value)
    return words


def _words(name: str, value: object) -> list[str]:
    option = name.replace("_", "-")
    if value is None:
        return []
    if name in OF_A_PROGRAM:
        raise ConfigError(f"{name}={value!r}: worker processes have their own; give it to the app that they import")
    if isinstance(value, bool):
        return [f"--{option}" if value else f"--no-{option}"]
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if not isinstance(value, str | int | float):
        raise ConfigError(f"{name}={value!r}: worker processes take what `holdfast worker --{option}` takes")
    return [f"--{option}", str(value)]
