"""What a run found, as tables and as JSON."""

from __future__ import annotations

import os
import platform
import sqlite3
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.compare.rounds import OURS, Outcome, Plan
from benchmarks.compare.target import Verdict
from benchmarks.system import System

COLUMNS = {
    "enqueue": ("enqueue one by one, jobs/s", "{:,.0f}"),
    "bulk": ("bulk, jobs/s", "{:,.0f}"),
    "drain": ("drain, jobs/s", "{:,.0f}"),
    "drain_us": ("drain: processes, us a job", "{:,.0f}"),
    "drain_server_us": ("server, us a job", "{:,.0f}"),
    "p50": ("idle latency p50, ms", "{:,.2f}"),
    "p95": ("p95, ms", "{:,.2f}"),
    "call_p50": ("call p50, ms", "{:,.2f}"),
    "callers": ("50 callers, jobs/s", "{:,.0f}"),
    "sleep": ("2,000 x 50 ms, s", "{:,.2f}"),
    "wakes": ("claims sent per job, 50 idle", "{:,.2f}"),
    "waiting_bytes": ("bytes per waiting job", "{:,.0f}"),
    "event_bytes": ("its event, bytes", "{:,.0f}"),
    "wal_bytes": ("WAL per job, bytes", "{:,.0f}"),
}
WORDS = {True: "[green]pass[/]", False: "[red]fail[/]", None: "not measured"}


def show(console: Console, plan: Plan, outcome: Outcome, verdicts: list[Verdict]) -> None:
    """The figures, their notes, the ratios, the targets and what went wrong are shown, in this order."""
    console.print(_figures(plan, outcome))
    for system in _shown(plan):
        console.print(f"{system.name}: {system.note}", style="dim", highlight=False)
    console.print(_ratios(plan, outcome))
    console.print(_targets(verdicts))
    for failure in dict.fromkeys(outcome.failures):
        console.print(f"failed: {failure}", style="red", markup=False)
    console.print(f"{machine()}. Load at the end {os.getloadavg()[0]:.1f}.", style="dim")


def as_json(plan: Plan, outcome: Outcome, verdicts: list[Verdict]) -> dict[str, Any]:
    """Everything, every round included."""
    return {
        "machine": machine(),
        "jobs": plan.jobs,
        "peer_jobs": plan.peer_jobs,
        "rounds": plan.rounds,
        "systems": {system.name: _system(system, outcome) for system in plan.systems},
        "targets": [{"target": v.target, "figure": v.figure, "kept": v.kept} for v in verdicts],
        "failures": outcome.failures,
    }


def machine() -> str:
    return (
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version},"
        f" {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    )


def _figures(plan: Plan, outcome: Outcome) -> Table:
    columns = {metric: COLUMNS[metric] for metric in _measured(outcome)}
    table = _table(f"Median of {plan.rounds} rounds", "system", *(head for head, _ in columns.values()))
    for system in _shown(plan):
        cells = (_figure(outcome, system.name, metric, form) for metric, (_, form) in columns.items())
        table.add_row(_title(system, outcome), *cells)
    return table


def _measured(outcome: Outcome) -> list[str]:
    """The columns in which anything stands."""
    seen = {metric for _, metric in (*outcome.figures, *outcome.words)}
    return [metric for metric in COLUMNS if metric in seen]


def _figure(outcome: Outcome, system: str, metric: str, form: str) -> str:
    value = outcome.of(system, metric)
    return outcome.words.get((system, metric), "-") if value is None else form.format(value)


def _ratios(plan: Plan, outcome: Outcome) -> Table:
    """More than 1 is better for us everywhere: rates are ours over theirs, latencies and sizes theirs over ours."""
    columns = _measured(outcome)
    table = _table("Ratios at the same durability (more than 1: Holdfast is better)", "", *columns)
    for system in _shown(plan):
        if not system.name.startswith(OURS):
            cells = (_cell(_ratio(outcome, metric, system), "{:.2f} x") for metric in columns)
            table.add_row(f"{system.beside} : {system.name}", *cells)
    return table


def _ratio(outcome: Outcome, metric: str, other: System) -> float | None:
    """The row at the same durability is asked, and where it lacks the figure, our first row."""
    return outcome.better(metric, other.beside, other.name) or outcome.better(metric, OURS, other.name)


def _targets(verdicts: list[Verdict]) -> Table:
    table = _table("Targets", "target", "figure", "verdict")
    for verdict in verdicts:
        table.add_row(verdict.target, verdict.figure, WORDS[verdict.kept])
    return table


def _system(system: System, outcome: Outcome) -> dict[str, Any]:
    metrics = sorted(metric for name, metric in outcome.figures if name == system.name)
    figures = {
        metric: {
            "median": outcome.of(system.name, metric),
            "rounds": list(outcome.figures[system.name, metric].values()),
        }
        for metric in metrics
    }
    words = {metric: word for (name, metric), word in outcome.words.items() if name == system.name}
    about = {"version": outcome.versions.get(system.name), "note": system.note, "lacks": system.lacks}
    return {**about, "metrics": figures, "words": words}


def _shown(plan: Plan) -> list[System]:
    """Ours first, whatever the order of measuring."""
    return sorted(plan.systems, key=lambda system: not system.name.startswith(OURS))


def _table(title: str, first: str, *columns: str) -> Table:
    table = Table(first, title=title, title_justify="left", title_style="bold", header_style="")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _title(system: System, outcome: Outcome) -> str:
    return f"{system.name} {outcome.versions.get(system.name, '')}".strip()


def _cell(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
