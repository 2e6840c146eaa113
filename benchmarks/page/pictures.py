"""Which charts the page has, by the figures of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.page.charts import Bar, Spread, bars, lines, spreads
from benchmarks.system import QUANTILES

TITLES = {"sqlite": "SQLite", "redis": "Redis", "postgres": "PostgreSQL"}
Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Picture:
    """A file of the page, and what it shows, for those who cannot see it."""

    name: str
    about: str
    svg: str


def pictures(figures: Figures) -> Iterator[Picture]:
    """Every picture of the page."""
    for store, found in (figures.get("compare") or {}).items():
        yield from of_store(store, found)
    if figures.get("recovery"):
        yield of_recovery(figures["recovery"], plan_of(figures, "recovery")["recovery_patience"])
    for store, found in (figures.get("scale") or {}).items():
        yield of_scale(store, found)
    if figures.get("backlog"):
        yield of_backlog(figures["backlog"])
    if figures.get("sustained"):
        yield of_sustained(figures["sustained"], plan_of(figures, "sustained")["sustained"])


def plan_of(figures: Figures, part: str) -> Figures:
    """The sizes with which a part was measured."""
    plan: Figures = figures["parts"][part]["plan"]
    return plan


def of_store(store: str, found: Figures) -> Iterator[Picture]:
    """Rates, distributions, and costs of one store."""
    title, systems = TITLES[store], found["systems"]
    groups = {
        heading: _ranked(systems, metric, lambda value: f"{value:,.0f}/s")
        for metric, heading in (("drain", "drain"), ("bulk", "bulk"), ("enqueue", "one by one"))
    }
    yield _made(f"{store}-throughput", f"Jobs a second on {title}, by system", bars, f"Throughput on {title}", groups)
    waits = {
        heading: _spreads(systems, prefix)
        for prefix, heading in (("call_", "a call and its result"), ("", "idle start"))
    }
    waits = {heading: rows for heading, rows in waits.items() if rows}
    if waits:
        about = f"Distribution of latencies on {title}, by system"
        svg = spreads(f"Latency on {title}: median · 99th per cent", about, "ms", waits)
        yield Picture(f"{store}-latency", about, svg)
    cost = {"drain, µs of processor time a job: processes and server": _costs(systems)}
    if room := _ranked(systems, "waiting_bytes", lambda value: f"{value:,.0f} bytes", lower=True):
        cost["bytes of the store for a waiting job"] = room
    if log := _ranked(systems, "wal_bytes", lambda value: f"{value:,.0f} bytes", lower=True):
        cost["bytes of write-ahead log for a job's life"] = log
    yield _made(f"{store}-cost", f"What a job costs on {title}, by system", bars, f"Cost of a job on {title}", cost)


def _made(name: str, about: str, draw: Callable[..., str], title: str, groups: Mapping[str, Sequence[Bar]]) -> Picture:
    return Picture(name, about, draw(title, about, {heading: rows for heading, rows in groups.items() if rows}))


def _ranked(systems: Figures, metric: str, word: Callable[[float], str], *, lower: bool = False) -> list[Bar]:
    """The systems that have this figure, the best first."""
    found = {name: each["metrics"][metric]["median"] for name, each in systems.items() if metric in each["metrics"]}
    names = sorted(found, key=lambda name: found[name], reverse=not lower)
    return [Bar(name, (found[name],), word(found[name]), _is_ours(name)) for name in names]


def _costs(systems: Figures) -> list[Bar]:
    rows = []
    for name, each in systems.items():
        if "drain_us" in each["metrics"]:
            own = each["metrics"]["drain_us"]["median"]
            server = each["metrics"].get("drain_server_us", {"median": 0.0})["median"]
            words = f"{own:,.0f} + {server:,.0f}" if server else f"{own:,.0f}"
            rows.append(Bar(name, (own, server), words, _is_ours(name)))
    return sorted(rows, key=lambda row: sum(row.parts))


def _spreads(systems: Figures, prefix: str) -> list[Spread]:
    rows = []
    for name, each in systems.items():
        cuts = {share: each["metrics"].get(f"{prefix}p{share:02d}") for share in QUANTILES}
        if all(cuts.values()):
            rows.append(Spread(name, {share: cut["median"] for share, cut in cuts.items() if cut}, _is_ours(name)))
    return sorted(rows, key=lambda row: row.cuts[50])


def _is_ours(name: str) -> bool:
    return name.startswith("holdfast")


def of_recovery(found: Sequence[Figures], patience: float) -> Picture:
    """Seconds to the end of the last job, by system."""
    rows = []
    for each in found:
        if not each["failure"]:
            seconds = patience if each["seconds"] is None else each["seconds"]
            words = f"{each['lost']} not done" if each["lost"] else f"{seconds:.1f} s, {each['doubled']} doubled"
            rows.append(Bar(f"{each['system']}, {TITLES[each['store']]}", (seconds,), words, _is_ours(each["system"])))
    rows.sort(key=lambda row: sum(row.parts))
    about = "Seconds from the kill of a worker to the end of the last of its jobs, by system"
    return _made("recovery", about, bars, "After kill -9", {"seconds until the last job was done": rows})


def of_scale(store: str, found: Figures) -> Picture:
    """Processor time for each job, by processes."""
    groups = {
        f"{kind}: {what}": [_scaled(cost) for cost in found[kind] if cost["what"] == what]
        for kind in ("workers", "producers")
        for what in dict.fromkeys(cost["what"] for cost in found[kind])
    }
    about = f"Processor time of processes and server for each job on {TITLES[store]}, by number of processes"
    return _made(f"{store}-scale", about, bars, f"More processes on {TITLES[store]}: µs a job, jobs/s", groups)


def _scaled(cost: Figures) -> Bar:
    own, server = (cost[name] / cost["jobs"] * 1e6 for name in ("own_seconds", "server_seconds"))
    rate = cost["jobs"] / cost["seconds"]
    return Bar(f"{cost['processes']}", (own, server), f"{own:,.0f} + {server:,.0f}, {rate:,.0f}/s", True)


def of_backlog(found: Figures) -> Picture:
    """What a claim costs the store, beside what it costs with the fewest jobs."""
    longest: Sequence[Figures] = max(found.values(), key=len)
    ticks = [f"{each['waiting']:,}" for each in longest]
    series = {TITLES[store]: [each["claim_growth"] for each in fields] for store, fields in found.items()}
    about = "What a claim costs each store, by how many jobs wait, as times its cost with the fewest"
    return Picture(
        "backlog",
        about,
        lines(
            "A claim, the more jobs wait", about, "times its cost with the fewest jobs, by waiting jobs", ticks, series
        ),
    )


def of_sustained(found: Figures, seconds: float) -> Picture:
    """Jobs a second over the time."""
    count = max(len(slices) for slices in found.values())
    ticks = [f"{seconds * (number + 1) / count:,.0f} s" for number in range(count)]
    series = {TITLES[store]: [each["rate"] for each in slices] for store, slices in found.items()}
    about = "Jobs a second of each store over the time of a sustained run"
    return Picture("sustained", about, lines("Sustained load", about, "jobs/s", ticks, series))
