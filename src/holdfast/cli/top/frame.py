"""A frame: everything on the screen, as lines of exactly its size."""

from __future__ import annotations

import io
from typing import NamedTuple

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from ...core.visible import visible
from ...telemetry.recent import Traffic
from ..output import duration, local_time
from .data import TopData
from .layout import table_lines
from .listing import Listing, ListRow, first_shown, place_of
from .press import HELP
from .spark import sparkline
from .state import VIEWS, TopState

_SEVERITY = {"problem": "bold red", "warning": "yellow", "note": "blue"}
MOST_CONCERNS = 3
_HINTS = {
    "queues": "Enter jobs  p pause/resume  r requeue failed  / filter  s sort",
    "workers": "Enter its jobs  / filter  s sort",
    "failures": "Enter sample  r requeue group  / filter  s sort",
    "jobs": "Enter open  f state  n/b page  r requeue  c cancel  / filter  s sort",
    "job": "Esc back  r requeue  c cancel",
}


class Canvas(NamedTuple):
    """What is drawn on: its size, and what it can show. No height: as many lines as there are."""

    width: int
    height: int | None
    color: bool = True
    ascii_only: bool = False

    def lines(self, shown: RenderableType) -> list[str]:
        """Return something drawn, line by line, with its colours."""
        console = Console(
            file=io.StringIO(), width=self.width, force_terminal=self.color, highlight=False, markup=False, emoji=False,
            color_system="256" if self.color else None, legacy_windows=False,
        )  # fmt: skip
        with console.capture() as captured:
            console.print(shown, no_wrap=True, overflow="ellipsis", crop=True)
        found = captured.get().removesuffix("\n").split("\n")
        return [_ascii(line) for line in found] if self.ascii_only else found


def _ascii(line: str) -> str:
    return line.replace("…", "~").replace("·", ".").encode("ascii", "backslashreplace").decode()


class Middle(NamedTuple):
    """What is shown in the middle: a list with its rows in order, or lines of text."""

    listing: Listing | None = None
    rows: list[ListRow] = []
    lines: list[Text] = []


def frame(data: TopData, state: TopState, parts: Middle, canvas: Canvas, interval: float) -> list[str]:
    """Return the lines of a frame."""
    head = canvas.lines(_head(data, state, canvas, interval))
    foot = canvas.lines(_foot(state))[:1]
    height = None if canvas.height is None else max(1, canvas.height - len(head) - len(foot))
    body = _body(state, parts, canvas, height)
    if canvas.height is None:
        return [*head, *body]
    body = body[:height] + [""] * ((height or 0) - len(body))
    return [*head, *body, *foot][: canvas.height]


def body_height(data: TopData, state: TopState, canvas: Canvas) -> int:
    """Return how many rows of a list are seen at once."""
    return max(1, (canvas.height or 1000) - len(_head_lines(data, state, canvas, 0)) - 2)


def _head(data: TopData, state: TopState, canvas: Canvas, interval: float) -> Text:
    return Text("\n").join(_head_lines(data, state, canvas, interval))


def _head_lines(data: TopData, state: TopState, canvas: Canvas, interval: float) -> list[Text]:
    lines = [_title(data, state, interval), _rates(data, canvas), _totals(data)]
    if data.trouble:
        lines.append(Text(f"the store is away: {data.trouble}; trying again", style="bold white on red"))
    elif data.view.state.behind:
        lag = duration(data.view.state.lag_ms)
        lines.append(Text(f"reading the log: {lag} behind", style="yellow"))
    told = [each for each in data.concerns if each.kind != "store"]
    lines += [Text(f"! {each.words}", style=_SEVERITY[each.severity]) for each in told[:MOST_CONCERNS]]
    if len(told) > MOST_CONCERNS:
        lines.append(Text(f"! and {len(told) - MOST_CONCERNS} more", style="dim"))
    return [*lines, Text(), _tabs(state)]


def _title(data: TopData, state: TopState, interval: float) -> Text:
    at = (local_time(data.now_ms) or "")[11:]
    marks = [f"every {interval:g} s"] if interval else []
    marks += ["read-only"] if state.read_only else []
    marks += ["stopped: Space goes on"] if state.frozen else []
    return Text.assemble(("holdfast top", "bold"), f"  {at}  ", (", ".join(marks), "dim"), f"  {visible(data.url)}")


def _rates(data: TopData, canvas: Canvas) -> Text:
    traffic = data.view.all
    line = Text()
    for name, count, style in (
        ("in", traffic.arrived, ""),
        ("started", traffic.started, ""),
        ("done", traffic.completed, "green"),
        ("failed", traffic.failed, "red"),
        ("retried", traffic.retried, "yellow"),
        ("stalled", traffic.stalled, "red"),
    ):
        line.append(f"{name} ", "dim")
        line.append(f"{_per_second(traffic, count)}/s  ", style if count else "dim")
    for name, spread in (("wait", traffic.wait), ("run", traffic.run)):
        line.append(f"{name} ", "dim")
        line.append(f"{duration(spread.p50_ms) or '-'}, p95 {duration(spread.p95_ms) or '-'}  ")
    room = canvas.width - line.cell_len
    if room > 10:
        line.append(sparkline(data.done[:-1], min(60, room), ascii_only=canvas.ascii_only), "green")
    return line


def _per_second(traffic: Traffic, count: int) -> str:
    rate = traffic.rate(count)
    return f"{rate:,.0f}" if rate >= 10 or not count else f"{rate:.2f}"


def _totals(data: TopData) -> Text:
    line = Text()
    for state in ("waiting", "active", "scheduled", "blocked", "failed"):
        line.append(f"{state} ", "dim")
        line.append(f"{sum(info.counts.get(state, 0) for info in data.queues):,}  ")
    alive = [info for info in data.workers if info.alive]
    line.append("workers ", "dim")
    line.append(f"{len(alive)}  ")
    line.append("slots ", "dim")
    line.append(f"{sum(info.active for info in alive)}/{sum(info.session.slots for info in alive)}")
    return line


def _tabs(state: TopState) -> Text:
    line = Text()
    for number, view in enumerate(VIEWS, 1):
        on = view == state.view or (view == "jobs" and state.view == "job")
        line.append(f" {number} {_tab_title(view, state)} ", "reverse bold" if on else "dim")
        line.append(" ")
    wanted = state.tab.wanted
    if wanted:
        line.append(f" filter: {visible(wanted)}", "cyan")
    return line


def _tab_title(view: str, state: TopState) -> str:
    if view != "jobs":
        return view
    which = state.jobs
    of = f" of {visible(which.queue)}" if which.queue is not None else ""
    of = f" of {visible(which.worker_name)}" if which.worker is not None else of
    page = f", page {len(which.cursors) + 1}" if which.cursors else ""
    return f"jobs{of}{f', {which.state}' if which.state else ''}{page}"


def _foot(state: TopState) -> Text:
    if state.confirm is not None:
        return Text(f"{state.confirm.question} y/n", style="bold yellow")
    if state.typing is not None:
        name = "filter" if state.typing == "filter" else "job id"
        return Text(f"{name}: {visible(state.typed)}_", style="bold cyan")
    if state.message:
        return Text(visible(state.message), style="bold red" if state.is_error else "bold green")
    if state.help:
        return Text("any key goes back", style="dim")
    return Text(f"{_HINTS[state.view]}  o open id  ? help  q quit", style="dim")


def _body(state: TopState, parts: Middle, canvas: Canvas, height: int | None) -> list[str]:
    if state.help:
        return canvas.lines(_help())
    if parts.listing is None:
        shown = parts.lines if height is None else parts.lines[_top_of(state, len(parts.lines), height) :][:height]
        return canvas.lines(Text("\n").join(shown))
    if not parts.rows:
        word = "nothing here has that in it" if state.tab.wanted else parts.listing.empty
        return canvas.lines(Text(f"  {word}", style="dim"))
    return canvas.lines(_table(state, parts.listing, parts.rows, canvas, height))


def _top_of(state: TopState, count: int, height: int) -> int:
    """Return the first line that is shown, and keep the scroll within the text."""
    state.scroll = max(0, min(state.scroll, count - height))
    return state.scroll


def _help() -> Table:
    table = Table(box=None, show_header=False, pad_edge=True)
    for keys, meaning in HELP:
        table.add_row(Text(keys, style="bold"), Text(meaning))
    return table


def _table(state: TopState, listing: Listing, rows: list[ListRow], canvas: Canvas, height: int | None) -> Text:
    mark = " ^" if state.tab.reverse else " v"
    titles = [column.title + mark * (state.tab.sort == at) for at, column in enumerate(listing.columns)]
    place = place_of(rows, state.tab.selected)
    room = len(rows) if height is None else max(1, height - 1)
    first = first_shown(place, len(rows), room)
    selected = None if height is None else place - first
    return Text("\n").join(table_lines(listing.columns, titles, rows[first : first + room], canvas.width, selected))
