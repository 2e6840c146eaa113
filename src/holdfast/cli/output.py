"""Printing: tables for people, JSON for programs, and colour only on a terminal."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..core.visible import visible, visible_json
from .columns import GAP, TableColumn, fit

_STYLE = {
    "waiting": "cyan", "scheduled": "blue", "blocked": "magenta", "active": "yellow", "completed": "green",
    "failed": "red", "cancelled": "bright_black", "ok": "green", "problem": "bold red",
    "alive": "green", "gone": "red",
}  # fmt: skip
_note: Callable[[str], str] | None = None
WIDE = 10_000
"""The width of a file or a pipe, where lines are not cut."""


def console(*, err: bool = False) -> Console:
    """Return a console on the current stream. It takes nothing in a job for markup."""
    stream = sys.stderr if err else sys.stdout
    width = None if stream.isatty() else WIDE
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def state_style(word: str) -> str:
    """Return the colour of a word that is a state; none for other words."""
    return _STYLE.get(word, "")


def cell(value: object) -> Text:
    """Return a value as a table shows it; words that are states have their colour."""
    text = "" if value is None else visible(str(value))
    return Text(text, style=state_style(text), overflow="fold")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, header: bool = True) -> None:
    """Print a table that fits the terminal, with columns by the marks of `TableColumn`; tell what was left out."""
    out, parsed = console(), [TableColumn.of(mark) for mark in columns]
    cells = [[cell(value) for value in row] for row in rows]
    found = fit(parsed, [[each.plain for each in row] for row in cells], out.width)
    made = Table(box=None, pad_edge=False, show_header=header, header_style="bold", padding=(0, GAP, 0, 0))
    for number, at in enumerate(found.places):
        column, width = parsed[at], None if found.widths is None else found.widths[number]
        made.add_column(column.title, justify="right" if column.right else "left", overflow="fold", width=width)
    for row in cells:
        made.add_row(*(row[at] for at in found.places))
    _print(out, made)
    gone = [at for at in range(len(parsed)) if at not in found.places]
    left_out = [parsed[at].title for at in gone if any(row[at].plain for row in cells)]
    if left_out:
        click.echo(f"not shown in {out.width} columns: {', '.join(left_out)} (--json has all)", err=True)


def _print(out: Console, made: Table) -> None:
    if out.is_terminal:
        out.print(made)
        return
    with out.capture() as captured:
        out.print(made)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def json_out(value: object) -> None:
    """Print a value as indented JSON."""
    click.echo(visible_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()))


def json_line(value: object) -> None:
    """Print a value as one line of JSON."""
    click.echo(json_text(value))


def json_text(value: object) -> str:
    """Return a value as JSON without control characters for a terminal."""
    return visible_json(msgspec.json.encode(value).decode())


def say(text: str, *, err: bool = False) -> None:
    """Print one line, with control characters of names and ids made visible."""
    if err and _note is not None:
        click.echo(_note(text), nl=False, err=True)
    else:
        click.echo(visible(text), err=err)


def write_notes_as(note: Callable[[str], str] | None) -> None:
    """Have what is said on stderr written as this function returns it: as lines of a log, where the log is JSON."""
    global _note
    _note = note


def say_note(text: str) -> None:
    """Print on stderr something that people want to know and that is not data."""
    say(f"holdfast: {text}", err=True)


def note_unknown_queues(queues: Iterable[str] | None, known: Iterable[str]) -> None:
    """Say which of the queues that `--queues` names the app does not declare: a name may be mistyped."""
    for name in queues or ():
        if name not in known:
            say_note(f"--queues {name}: this app declares no such queue; it has {', '.join(known) or 'none'}")


def say_more(cursor: str | None) -> None:
    """Say on stderr that a list was cut, with the option for the next page, quoted for a shell."""
    if cursor:
        click.echo(f"there are more: --cursor {shlex.quote(cursor)}", err=True)


def local_time(ms: int | None) -> str | None:
    """Return an instant for people, in their own time zone."""
    if ms is None:
        return None
    return datetime.fromtimestamp(ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def size(count: int | None) -> str | None:
    """Return a number of bytes for people."""
    if count is None:
        return None
    for unit, bytes in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= bytes:
            return f"{count / bytes:.3g} {unit}"
    return f"{count} B"


def duration(ms: float | None) -> str | None:
    """Return a duration for people."""
    if ms is None:
        return None
    if ms < 1000:
        return f"{ms:.0f} ms"
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if ms >= 2 * size:
            return f"{ms / size:.0f} {unit}"
    return f"{ms / 1000:.3g} s"
