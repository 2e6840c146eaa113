"""`holdfast worker`: one worker in this process, or a fleet of processes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
import msgspec

from ..app import Holdfast
from ..errors import ConfigError, HoldfastError, MissingExtra
from ..find import load_app
from ..log import to_stderr
from ..store import shown
from ..worker.fleet import PIPE, Fleet, stop_with_parent
from ..worker.report import Report
from ..worker.worker import Worker
from .ending import close
from .group import Command
from .show import json_line, note, say
from .value import as_bytes, as_names, as_seconds, seconds

RESTARTS_IN_BURST = 3
SWITCH_INTERVAL = 0.0005
EMPTY = "empty"


@dataclass(frozen=True)
class Order:
    """What the command line asks for."""

    target: str | None
    queues: tuple[str, ...] | None
    slots: int
    processes: int
    burst: bool
    lease: float
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
    guard: bool = True

    def worker(self, app: Holdfast) -> Worker:
        """Return the worker, not yet running."""
        return app.worker(
            self.queues, slots=self.slots, lease=self.lease, drain=self.drain, name=self.name, pool=self.pool,
            recycle_jobs=self.recycle_jobs, recycle_memory=self.recycle_memory, on_stuck=self.on_stuck,
            on_evicted=self.on_evicted, grace=self.grace, poll=self.poll, wedged_after=self.wedged_after,
            guard=self.guard,
        )  # fmt: skip

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
        """People are told of queues that the app does not declare: served they are, for another app may fill them."""
        known = app.registry.queues
        for name in self.queues or ():
            if name not in known:
                note(f"--queues {name}: this app declares no such queue; it has {', '.join(known) or 'none'}")

    def child(self, number: int) -> list[str]:
        """Return the command of one process of a fleet."""
        words = [sys.executable, "-m", "holdfast", "worker", *([self.target] if self.target else [])]
        words += ["--slots", str(self.slots), "--lease", str(self.lease), "--drain", str(self.drain)]
        words += ["--grace", str(self.grace), "--poll", str(self.poll), "--log-level", self.log_level]
        words += ["--on-stuck", self.on_stuck, "--on-evicted", self.on_evicted]
        words += ["--queues", ",".join(self.queues)] if self.queues else []
        words += [] if self.guard else ["--no-guard"]
        for name in ("pool", "recycle_jobs", "recycle_memory", "wedged_after"):
            value = getattr(self, name)
            words += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
        words += ["--name", f"{self.name}-{number}"] if self.name else []
        words += [] if self.uvloop is None else ["--uvloop" if self.uvloop else "--no-uvloop"]
        return words + ["--burst"] * self.burst + ["--json"] * self.as_json


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
    "--lease", callback=as_seconds, default="15", show_default=True, metavar="S", help="Unheard for S, it is dead."
)
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
@click.option("--uvloop/--no-uvloop", default=None, help="Use uvloop; default: when it is installed.")
@click.option(
    "--log-level", default="info", show_default=True, help="How much to log on stderr.",
    type=click.Choice(["debug", "info", "warning", "error"]),
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print start and stop as lines of JSON.")
def worker(**given: Any) -> None:
    """Run jobs until told to stop.

    SIGTERM or Ctrl-C stops it in two phases: it claims nothing more and lets handlers finish (--drain), then
    tells them to stop, and hands back what is left. A second signal skips the drain.

    \b
    Examples:
      holdfast worker shop:app
      holdfast worker shop:app --queues mail,reports --slots 50
      holdfast worker examples/shop.py:app --burst
      holdfast worker shop:app --queues images --pool 4 --recycle-memory 500M
      HOLDFAST_APP=shop:app holdfast worker --processes 4
      holdfast worker shop:app --on spark --workers 20 --master spark://head:7077 --drain
    """
    order = _ordered(given)
    to_stderr(order.log_level.upper(), "%(asctime)s %(levelname)s %(name)s: %(message)s")
    if order.processes < 1:
        raise ConfigError(f"--processes={order.processes}: a whole number from 1")
    if order.on == "spark":
        from .on_spark import run_fleet

        run_fleet(order)
        return
    if order.master:
        raise ConfigError(f"--master={order.master}: that is Spark's; give --on spark, too")
    if order.processes > 1:
        code = _fleet(order)
        if code:
            click.get_current_context().exit(code)
        return
    # SQLite calls happen in a thread. A handler that computes holds the interpreter for a whole switch
    # interval, 5 ms by default, each time that thread wants it back: claims and heartbeats would starve.
    sys.setswitchinterval(SWITCH_INTERVAL)
    app = order.app()
    if PIPE not in os.environ:  # the fleet has said it already
        order.note_unknown(app)
    runner, left = asyncio.Runner(loop_factory=_loop_factory(order.uvloop)), list[str]()
    try:
        runner.run(_work(order, app, left))
    finally:
        close(runner, order.grace, left)


def _ordered(given: dict[str, Any]) -> Order:
    """Return what is asked for. `--drain` alone means what `--burst` means."""
    until_empty = given["drain"] == EMPTY
    drain = seconds("30" if until_empty else given["drain"], "--drain")
    return Order(**{**given, "drain": drain, "burst": given["burst"] or until_empty})


async def _work(order: Order, app: Holdfast, left: list[str]) -> None:
    """The worker has run; a line says what it serves, and one what it did. `left` names handlers that do not stop."""
    worker = order.worker(app)
    first = iter((True,))

    def started(_: object) -> None:
        if next(first, False):
            stop_with_parent(worker.stop)
            _say_started(order, app, worker)

    evicted: list[object] = []
    worker.hooks.add("worker_started", started)
    worker.hooks.add("lease_lost", evicted.append)
    report = await worker.run(burst=order.burst, signals=True)
    _say_stopped(order, worker, report)
    left += report.left
    if report.stuck:
        raise HoldfastError(f"{report.stuck} threads did not return after their time-out: start the worker again")
    if evicted and order.on_evicted == "exit":
        raise HoldfastError("this worker was declared dead, because it was not heard for a lease: start it again")


def _say_started(order: Order, app: Holdfast, worker: Worker) -> None:
    if order.as_json:
        told = {"worker": worker.name, "pid": os.getpid(), "url": shown(app.store.url), "queues": list(worker.queues)}
        json_line({"event": "started", **told, "slots": order.slots})
    else:
        queues = ", ".join(worker.queues)
        say(f"worker {worker.name} serves {queues} with {order.slots} slots on {shown(app.store.url)}")
    sys.stdout.flush()


def _say_stopped(order: Order, worker: Worker, report: Report) -> None:
    counts = msgspec.to_builtins(report)
    if order.as_json:
        json_line({"event": "stopped", "worker": worker.name, "pid": os.getpid(), **counts})
    else:
        counts["left"] = len(report.left)
        done = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        say(f"worker {worker.name} stopped: {done or 'no job came'}")
    sys.stdout.flush()


def _fleet(order: Order) -> int:
    """The fleet has run; return its exit code. A mistake is told here once, not by each process."""
    app = order.app()
    order.worker(app)
    order.note_unknown(app)
    if not app.store.shared:
        raise ConfigError(f"--processes: {shown(app.store.url)} is one process's own memory; use sqlite:///jobs.db")
    restarts = RESTARTS_IN_BURST if order.burst else None
    fleet = Fleet(order.child, order.processes, lambda text: say(text, err=True), most_restarts=restarts)
    return asyncio.run(fleet.run())


def _loop_factory(wanted: bool | None) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if wanted is False:
        return None
    try:
        import uvloop
    except ImportError:
        if wanted:
            raise MissingExtra("--uvloop needs a package that is missing: pip install 'holdfast[fast]'") from None
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
