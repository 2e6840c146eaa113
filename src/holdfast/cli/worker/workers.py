"""`holdfast workers`: list the workers, and stop them through the store."""

from __future__ import annotations

import click

from ...app.app import Holdfast
from ...json import form as json_form
from ...store.contract import SessionInfo
from ..command import CommandGroup, NotDone, Source, acting_options, json_option, source_options
from ..output import duration, json_out, say, size, table

TOLD = {"drain": "draining", "stop": "stopping"}


@click.group(cls=CommandGroup, default="list")
def workers() -> None:
    """List workers, and stop them.

    Without a command: list.

    \b
    Examples:
      holdfast workers --app shop:app
      holdfast workers stop shop-1 --url sqlite:///jobs.db
    """


@workers.command("list")
@source_options
@json_option
def list_(source: Source, as_json: bool) -> None:
    """List workers.

    What they serve, how busy they are, and when they were last heard.

    \b
    Examples:
      holdfast workers --app shop:app
      holdfast workers --url sqlite:///jobs.db --json
    """

    async def work(app: Holdfast) -> tuple[list[SessionInfo], int]:
        return await app.workers(), await app.store.now_ms()

    found, now = source.run(work)
    if as_json:
        json_out({"workers": [json_form.worker(info) for info in found]})
        return
    table(
        ("worker", "?host", ">?pid", "queues", ">active", ">slots", "is", ">?up", ">heard", ">?memory", "?version"),
        [_row(info, now) for info in found],
    )


def _row(info: SessionInfo, now: int) -> tuple[object, ...]:
    session = info.session
    up, heard = duration(max(0, now - info.started_at_ms)), duration(max(0, now - info.heard_at_ms))
    word = TOLD.get(info.command or "", "alive") if info.alive else "gone"
    queues = ", ".join(session.queues)
    return (
        session.name, session.host, session.pid, queues, info.active, session.slots, word, up, heard,
        size(info.memory_bytes), session.version or None,
    )  # fmt: skip


@workers.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@acting_options
@click.option("--now", "at_once", is_flag=True, help="Skip the drain: handlers are told to stop at once.")
@json_option
def stop(source: Source, names: tuple[str, ...], at_once: bool, as_json: bool) -> None:
    """Stop workers, by name or by the id of their session.

    Each hears of it with its next heartbeat, and ends as by SIGTERM: it claims nothing more, finishes what runs, and
    ends. The name of `worker --processes` means all of its processes. Exit code 1 when one of the names is nobody's.

    \b
    Examples:
      holdfast workers stop shop-1 --app shop:app
      holdfast workers stop shop-1 shop-2 --now
    """

    async def work(app: Holdfast) -> dict[str, list[str]]:
        return {name: await app.stop_worker(name, drain=not at_once) for name in names}

    told = source.run(work)
    if as_json:
        json_out(told)
    else:
        for name, sessions in told.items():
            say(f"{name}: told, within a heartbeat: {', '.join(sessions)}" if sessions else f"{name}: nobody is told")
    if missing := [name for name, sessions in told.items() if not sessions]:
        raise NotDone(f"no worker that is alive is named {', '.join(missing)}; see holdfast workers")
