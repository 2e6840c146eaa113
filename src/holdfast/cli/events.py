"""`holdfast events`: the log, one line for each event."""

from __future__ import annotations

import asyncio
import sys

import click

from ..app.app import Holdfast
from ..core.action import OPERATE
from ..core.event import Event
from ..core.visible import visible
from ..json import form as json_form
from ..store.contract import EventPage
from .command import Command, Source, json_option, source_options
from .complete import complete_queues
from .output import duration, json_line, local_time, say_note

POLL = 0.2
PAGE = 1000


@click.command(cls=Command)
@source_options
@click.option("--follow", "-f", is_flag=True, help="Wait for more, until Ctrl-C.")
@click.option("--queue", metavar="NAME", shell_complete=complete_queues, help="Of this queue.")
@click.option(
    "--after",
    metavar="POSITION|end|end-N",
    help="After this position; `end` is from now on, `end-100` with the last 100. Default: all.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="End after so many.")
@json_option
def events(
    source: Source, follow: bool, queue: str | None, after: str | None, limit: int | None, as_json: bool
) -> None:
    """Print what happened to jobs.

    Events stand in the order in which they were committed. With --json, one object on each line; its
    `position` can be given to --after.

    \b
    Examples:
      holdfast events --app shop:app --follow --after end
      holdfast events --url sqlite:///jobs.db --queue mail --limit 100
      holdfast events --json | jq -r 'select(.state == "failed") | .id'
    """

    async def work(app: Holdfast) -> None:
        await _tail(app, queue, after, limit, follow=follow, as_json=as_json)

    try:
        source.run(work)
    except KeyboardInterrupt:
        return


async def _tail(
    app: Holdfast, queue: str | None, position: str | None, limit: int | None, *, follow: bool, as_json: bool
) -> None:
    """Print events as they come, until there are no more, or `limit` were printed."""
    left = limit
    while left is None or left > 0:
        page = await app.store.events(position, queue=queue, limit=min(PAGE, left or PAGE))
        position = page.position
        _warn(page)
        for event in page.events:
            json_line(json_form.event(event)) if as_json else click.echo(event_line(event))
        sys.stdout.flush()
        left = None if left is None else left - len(page.events)
        if not page.events:
            if not follow:
                return
            await asyncio.sleep(POLL)


def _warn(page: EventPage) -> None:
    """Say on stderr that events are missing."""
    if page.gap:
        say_note(f"{page.gap} events after that position are no longer kept")
    if page.reset:
        say_note("the log is another one than the position was made for: reading from its beginning")


def event_line(event: Event, *, named: bool = True) -> str:
    """Return an event as one line: when, what, which job unless that is known, and what is worth knowing."""
    facts = [
        ("task", event.task),
        ("attempt", event.attempt or None),
        ("cause", event.cause),
        ("waited", duration(event.wait_ms)),
        ("ran", duration(event.run_ms)),
        ("error", event.error_type),
        ("key", event.key),
        ("worker", event.worker),
        ("by", event.actor),
    ]
    shown = " ".join(f"{name}={str(value).replace(' ', '')}" for name, value in facts if value is not None)
    said = f" {event.message}" if event.message else ""
    job = "" if not named else f"{event.queue}/{event.id}#{event.run} " if event.run else f"{event.queue} "
    state = "-" if event.transition == OPERATE else event.state or "gone"
    return visible(f"{local_time(event.at_ms)} {event.transition:<9} {state:<9} {job}{shown}{said}").rstrip()
