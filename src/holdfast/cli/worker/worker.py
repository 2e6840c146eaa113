"""`holdfast worker`: one worker in this process, or several processes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

import click
import msgspec

from ...app.app import Holdfast
from ...distribution import pip_install
from ...errors import ConfigError, HoldfastError, MissingExtra
from ...store import shown
from ...supervisor import WorkerProcesses
from ...supervisor.child import Parent
from ...telemetry.health.port import LOOPBACK
from ...telemetry.health.systemd import Systemd
from ...worker.outcomes import Report
from ...worker.worker import Worker
from ..command import Command, OptionValue
from ..logs import is_logged_here, log_format_option, set_up_logs
from ..output import json_line, say
from ..parse import as_bytes, as_names, as_port, as_seconds
from .exit import close
from .interrupt import interrupts_told, jobs
from .options import EMPTY, WorkerCommand, parse_command
from .service import run_as_service, tell_of_worker

SWITCH_INTERVAL = 0.0005


@click.command(cls=Command)
@click.argument("target", required=False, metavar="[MODULE:APP]")
@click.option(
    "--queues", callback=as_names, metavar="A,B", help="The queues to serve; default: all that the app declares."
)
@click.option("--slots", default=10, show_default=True, help="How many jobs run at once, in each process.")
@click.option("--processes", "--workers", default=1, show_default=True, metavar="N", help="Run N worker processes.")
@click.option("--on", type=click.Choice(["here", "spark"]), default="here", show_default=True, help="Where they run.")
@click.option("--master", metavar="URL", help="Spark's master, with --on spark; default: this machine.")
@click.option(
    "--pool", type=int, metavar="N", help="Processes for handlers of process and sandbox tasks; default: processors."
)
@click.option("--recycle-jobs", type=int, metavar="N", help="Replace a process of the pool after N jobs.")
@click.option(
    "--recycle-memory", callback=as_bytes, metavar="BYTES", help="Replace one that holds more than this (500M, 2G)."
)
@click.option(
    "--on-stuck", type=click.Choice(["keep", "exit"]), default="keep", show_default=True,
    help="A thread does not return after its time-out: keep its slot, or end with exit code 1.",
)  # fmt: skip
@click.option(
    "--on-evicted", type=click.Choice(["restart", "exit"]), default="restart", show_default=True,
    help="It was declared dead: begin anew, or end with exit code 1.",
)  # fmt: skip
@click.option(
    "--guard/--no-guard", default=True, show_default=True,
    help="Have a process that keeps the lease while native code holds up the interpreter.",
)  # fmt: skip
@click.option("--burst", is_flag=True, help="End when nothing is left to run.")
@click.option(
    "--lease", callback=as_seconds, metavar="S",
    help="Unheard for S, it is dead; default: the longest that its tasks have, or 15.",
)  # fmt: skip
@click.option(
    "--heartbeat", callback=as_seconds, metavar="S", help="It is heard every S; default: a third of the lease."
)
@click.option(
    "--claim-interval", callback=as_seconds, default="0", show_default=True, metavar="S",
    help="Wait S between two claims: a gentle worker, which leaves what comes meanwhile to others.",
)  # fmt: skip
@click.option(
    "--drain", default="30", show_default=True, metavar="[S]", is_flag=False, flag_value=EMPTY,
    help="Time to finish, at a stop. Without a number it is --burst: put it last.",
)  # fmt: skip
@click.option(
    "--grace", callback=as_seconds, default="5", show_default=True, metavar="S",
    help="Time that handlers have once they were told to stop, and again once they were cancelled.",
)  # fmt: skip
@click.option(
    "--poll",
    callback=as_seconds,
    default="1",
    show_default=True,
    metavar="S",
    help="The longest sleep of an idle worker.",
)
@click.option(
    "--wedged-after", callback=as_seconds, metavar="S",
    help="The event loop is stuck for S: heartbeats stop; default: four leases.",
)  # fmt: skip
@click.option("--name", help="Its name in lists and logs; default: host and process id.")
@click.option("--uvloop/--no-uvloop", default=None, help="Use uvloop, or asyncio's own loop, which is the default.")
@click.option(
    "--log-level", default="info", show_default=True, help="How much to log on stderr.",
    type=click.Choice(["debug", "info", "warning", "error"]),
)  # fmt: skip
@log_format_option
@click.option(
    "--log-jobs/--no-log-jobs", default=True, show_default=True,
    help="A line for each attempt, at the level info. What goes wrong is logged all the same.",
)  # fmt: skip
@click.option(
    "--metrics-port", callback=as_port, metavar="PORT",
    help="Serve /metrics, and /live and /ready with them; 0: a free port, /PATH: a Unix socket.",
)  # fmt: skip
@click.option(
    "--health-port", callback=as_port, metavar="PORT", help="Serve /live and /ready; default: the port of the metrics."
)
@click.option(
    "--metrics-host", default=LOOPBACK, show_default=True, metavar="HOST", help="Where these ports are; 0.0.0.0: all."
)
@click.option(
    "--development/--no-development", default=None,
    help="This code's declarations hold, whatever the same version says; default: by HOLDFAST_DEVELOPMENT.",
)  # fmt: skip
@click.option("--reload", is_flag=True, help="For development: start again whenever the code changes.")
@click.option(
    "--reload-dir",
    multiple=True,
    metavar="DIR",
    help="Watch this folder; may be given again; default: the current one.",
)
@click.option(
    "--reload-include",
    multiple=True,
    metavar="GLOB",
    help="Watch files of such names, beside *.py; may be given again.",
)
@click.option(
    "--reload-grace", callback=as_seconds, default="2", show_default=True, metavar="S",
    help="Time to finish, when the code has changed; then jobs are handed back.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print start and stop as lines of JSON.")
@click.option("--quiet", is_flag=True, help="Print nothing at start and stop.")
def worker(**given: OptionValue) -> None:
    """Run jobs until told to stop.

    SIGTERM or Ctrl-C stops it in two phases: it claims nothing more and lets handlers finish (--drain), then
    tells them to stop, and hands back what is left. A second signal skips the drain.

    \b
    Examples:
      holdfast worker shop:app
      holdfast worker shop:app --queues mail,reports --slots 50
      holdfast worker shop:app --reload
      holdfast worker examples/shop.py:app --burst
      holdfast worker shop:app --queues images --pool 4 --recycle-memory 500M
      HOLDFAST_APP=shop:app holdfast worker --processes 4
      holdfast worker shop:app --on spark --workers 20 --master spark://head:7077 --drain
    """
    command, systemd = parse_command(given), Systemd()
    set_up_logs(command.log_level, command.log_format)
    if command.processes < 1:
        raise ConfigError(f"--processes={command.processes}: a whole number from 1")
    if command.reload:
        from .reload import run_reloading

        click.get_current_context().exit(run_reloading(command))
    for name in ("reload_dir", "reload_include"):
        if getattr(command, name):
            raise ConfigError(f"--{name.replace('_', '-')} is for --reload: give it, too")
    if command.on == "spark":
        from .fleet import run_fleet

        run_fleet(command)
        return
    if command.master:
        raise ConfigError(f"--master={command.master}: that is Spark's; give --on spark, too")
    if command.processes > 1:
        code = _processes(command, systemd)
        if code:
            click.get_current_context().exit(code)
        return
    # SQLite calls happen in a thread. A handler that computes holds the interpreter for a whole switch
    # interval, 5 ms by default, each time that thread wants it back: claims and heartbeats would starve.
    sys.setswitchinterval(SWITCH_INTERVAL)
    app, parent = command.app(), Parent()
    if not parent:  # a parent has said it already
        command.note_unknown(app)
    runner, left = asyncio.Runner(loop_factory=_loop_factory(command.uvloop)), list[str]()
    try:
        runner.run(_work(command, app, parent, left, systemd))
    finally:
        systemd.close()
        close(runner, command.grace, left)


async def _work(command: WorkerCommand, app: Holdfast, parent: Parent, left: list[str], systemd: Systemd) -> None:
    """Run the worker; print what it serves and what it did. `left` gets the handlers that do not stop."""
    worker = command.worker(app)
    first = iter((True,))

    def started(_: object) -> None:
        if next(first, False):
            parent.begun()
            _say_started(command, app, worker)

    parent.watch(worker.stop)
    tell_of_worker(systemd, worker)
    worker.hooks.add("worker_started", started)
    with interrupts_told(lambda: jobs(worker.active)):
        report = await worker.run(burst=command.burst, signals=True)
    parent.ended(report)
    _say_stopped(command, worker, report)
    left += report.left
    if report.stuck:
        raise HoldfastError(f"{report.stuck} threads did not return after their time-out: start the worker again")
    if report.out == "evicted":
        raise HoldfastError("this worker was declared dead, because it was not heard for a lease: start it again")
    if report.out == "store_too_new":
        raise HoldfastError("the store was changed by a newer Holdfast: upgrade this worker, and start it again")


def _say_started(command: WorkerCommand, app: Holdfast, worker: Worker) -> None:
    if command.quiet:
        return
    if command.as_json:
        told = {"worker": worker.name, "pid": os.getpid(), "url": shown(app.store.url), "queues": list(worker.queues)}
        ports = {"ports": list(worker.urls)} if worker.urls else {}
        json_line({"event": "started", **told, "slots": command.slots, **ports})
    elif not is_logged_here():
        queues = ", ".join(worker.queues)
        say(f"worker {worker.name} serves {queues} with {command.slots} slots on {shown(app.store.url)}")
    sys.stdout.flush()


def _say_stopped(command: WorkerCommand, worker: Worker, report: Report) -> None:
    if command.quiet:
        return
    counts = msgspec.to_builtins(report)
    if command.as_json:
        json_line({"event": "stopped", "worker": worker.name, "pid": os.getpid(), **counts})
    elif not is_logged_here():
        counts["left"] = len(report.left)
        out = counts.pop("out")
        done = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        say(f"worker {worker.name} stopped{f' ({out})' if out else ''}: {done or 'no job came'}")
    sys.stdout.flush()


def _processes(command: WorkerCommand, systemd: Systemd) -> int:
    """Run several processes and return the exit code. An error is printed once, not by each of them."""
    made = WorkerProcesses(
        command.app_path, command.processes, command.queues, burst=command.burst, quiet=command.quiet,
        say=lambda text: say(text, err=True), words=command.words, probed=systemd.watchdog is not None,
        **command.options,
    )  # fmt: skip
    command.note_unknown(made.app)

    async def run() -> int:
        with interrupts_told(lambda: f"the jobs of {len(made.pids)} processes"):
            return (await run_as_service(systemd, made)).code

    return asyncio.run(run())


def _loop_factory(wanted: bool | None) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if not wanted:
        return None
    try:
        import uvloop
    except ImportError:
        raise MissingExtra(f"--uvloop needs a package that is missing: {pip_install('fast')}") from None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
