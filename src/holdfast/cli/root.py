"""The root command. It has all other commands, and turns every error into one line and an exit code."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click

from .. import __version__
from ..core.visible import visible_lines
from ..errors import ConfigError, HoldfastError, PayloadError, ScheduleMissing
from .command import CommandGroup, Halfway, one_line
from .output import say

USAGE, TROUBLE, INTERRUPTED = 2, 1, 130
MODULES = {
    "worker": "worker.worker",
    "enqueue": "job.enqueue",
    "jobs": "job.jobs",
    "chains": "chains",
    "queues": "queues",
    "tasks": "tasks",
    "schedules": "schedules",
    "workers": "worker.workers",
    "top": "top.top",
    "events": "events",
    "cancel": "job.actions",
    "requeue": "job.actions",
    "promote": "job.actions",
    "delete": "job.actions",
    "pause": "queues",
    "resume": "queues",
    "settings": "tasks",
    "declare": "tasks",
    "doctor": "doctor",
    "metrics": "telemetry.metrics",
    "upkeep": "maintain",
    "migrate": "maintain",
    "serve": "serve",
    "lake": "lake.lake",
    "init": "develop.init",
    "completion": "develop.completion",
}
"""The module of each command, those first that people need first. A command is a function of its own name there."""


class RootGroup(CommandGroup):
    """The commands of this package, and `demo` where it is installed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every command, those first that people need first."""
        return [*MODULES, *(["demo"] if find_spec("holdfast.demo") else [])]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by name. Its module is imported only now: all of them take longer than most commands."""
        if cmd_name in MODULES:
            found: click.Command = getattr(import_module(f".{MODULES[cmd_name]}", __package__), cmd_name)
            return found
        if cmd_name == "demo" and find_spec("holdfast.demo"):
            with contextlib.suppress(ImportError, AttributeError):
                demo: click.Command = import_module("holdfast.demo").demo
                return demo
        return None

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and exit: 0 done, 1 not possible, 2 a wrong command line."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, False, **extra)
        words = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(words, prog_name, complete_var, False, obj=words, **extra)
        except (Exception, KeyboardInterrupt) as error:
            code = report(error, debug=wants_traceback(words))
        sys.exit(code if isinstance(code, int) else 0)


def wants_traceback(words: Sequence[str]) -> bool:
    """Return whether `--debug` or HOLDFAST_DEBUG=1 is set."""
    return "--debug" in words or os.environ.get("HOLDFAST_DEBUG", "").lower() in ("1", "true", "yes", "on")


def report(error: BaseException, *, debug: bool) -> int:
    """Print one line on stderr that says what is wrong; return the exit code."""
    if isinstance(error, click.Abort | KeyboardInterrupt):
        click.echo("holdfast: interrupted", err=True)
        return INTERRUPTED
    if isinstance(error, Halfway):
        say(f"holdfast: {error}", err=True)
        return INTERRUPTED
    if debug:
        click.echo(visible_lines("".join(traceback.format_exception(error))), nl=False, err=True)
    say(f"holdfast: {one_line(_message(error))}", err=True)
    if isinstance(error, ScheduleMissing):
        return TROUBLE  # as for a job that is not there
    return USAGE if isinstance(error, click.ClickException | ConfigError | PayloadError) else TROUBLE


def _message(error: BaseException) -> str:
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{error.format_message().rstrip('.')} (try {error.ctx.command_path} --help)"
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, HoldfastError):
        return str(error)
    return f"{type(error).__name__}: {error} (unexpected; --debug shows where)"


@click.group(cls=RootGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="holdfast", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Holdfast: a job queue that never lets go of a job.

    Commands find their store through an app (--app module:app, or HOLDFAST_APP) or a URL (--url
    sqlite:///jobs.db, or HOLDFAST_URL). Whatever prints data takes --json.

    \b
    Examples:
      holdfast worker shop:app                  run jobs
      holdfast enqueue --app shop:app send to=ann@example.com
      holdfast jobs --app shop:app --state failed
      holdfast doctor --url sqlite:///jobs.db
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    cli.main(prog_name="holdfast")
