"""The words of the page: every figure in them comes from the run, none is written by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.page import pictures
from benchmarks.page.pictures import TITLES, plan_of
from benchmarks.page.plan import LONGEST_SUSTAINED, MOST_BACKLOG
from benchmarks.peers import known

Figures = Mapping[str, Any]
CALLS = ("enqueue", "claim", "settle")
TEXT = Path(__file__).with_name("text.md")
COLUMNS = {
    "enqueue": ("one by one, jobs/s", "{:,.0f}"),
    "bulk": ("bulk, jobs/s", "{:,.0f}"),
    "drain": ("drain, jobs/s", "{:,.0f}"),
    "call_p50": ("call p50, ms", "{:,.2f}"),
    "callers": ("50 callers, jobs/s", "{:,.0f}"),
    "p50": ("idle start p50, ms", "{:,.2f}"),
    "sleep": ("2,000 x 50 ms, s", "{:,.2f}"),
    "drain_us": ("drain: processes, µs a job", "{:,.0f}"),
    "drain_server_us": ("server, µs a job", "{:,.0f}"),
    "waiting_bytes": ("a waiting job, bytes", "{:,.0f}"),
    "wal_bytes": ("write-ahead log of a job, bytes", "{:,.0f}"),
}


def page(figures: Figures) -> str:
    """The whole page."""
    parts = [_head(figures)]
    for name, section in SECTIONS.items():
        if figures.get(name):
            parts += [section(figures), _stamp(figures["parts"][name])]
    parts += [_left_out(figures), _missing(figures)]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def prose(name: str, **fields: Any) -> str:
    """A part of the prose, with its braces filled."""
    parts = dict(part.split("\n", 1) for part in TEXT.read_text().split("\n%% ")[1:])
    return parts[name].strip().format(**fields)


def _head(figures: Figures) -> str:
    machine, parts = figures["machine"], figures["parts"].values()
    versions = ", ".join(f"{name} {version}" for name, version in figures["versions"].items())
    minutes = sum(part["seconds"] for part in parts) / 60
    head = prose("head", **machine, minutes=minutes, versions=versions)
    return f"{head}\n\n{prose('busy')}" if any(was_busy(part, machine["cores"]) for part in parts) else head


def was_busy(part: Figures, cores: int) -> bool:
    """True when others kept cores busy beside a part, more than its own client, worker, server and loops of looking."""
    return bool(part["load_before"] > 2 * cores or part["load_after"] > 3 * cores)


def _stamp(part: Figures) -> str:
    stamp = prose("stamp", **{**part, "minutes": max(1, round(part["seconds"] / 60))})
    kept = "".join(f"; {TITLES[store]} {taken}" for store, taken in part.get("others", {}).items())
    return stamp.removesuffix(".*") + kept + ".*"


def _rounds(count: int) -> str:
    return "one round" if count == 1 else f"{count} rounds"


def _compare(figures: Figures) -> str:
    plan = plan_of(figures, "compare")
    sizes = {"jobs": plan["jobs"], "peer_jobs": plan["peer_jobs"], "rounds": _rounds(plan["rounds"])}
    parts = [prose("compare", **sizes)]
    for store, found in figures["compare"].items():
        parts += [f"### {TITLES[store]}", *_shown(pictures.of_store(store, found)), _table(found)]
    return "\n\n".join([*parts, _peers(figures["compare"])])


def _shown(charts: Iterable[pictures.Picture]) -> list[str]:
    return [f"![{chart.about}](images/benchmarks/{chart.name}.svg)" for chart in charts]


def _table(found: Figures) -> str:
    systems = found["systems"]
    used = [name for name in COLUMNS if any(name in each["metrics"] for each in systems.values())]
    rows = [[name, *(_cell(each, metric) for metric in used)] for name, each in _ours_first(systems)]
    return _markdown(["", *(COLUMNS[name][0] for name in used)], rows)


def _ours_first(systems: Figures) -> list[tuple[str, Any]]:
    return sorted(systems.items(), key=lambda item: (not item[0].startswith("holdfast"), item[0] == "floor"))


def _cell(system: Figures, metric: str) -> str:
    found = system["metrics"].get(metric)
    return COLUMNS[metric][1].format(found["median"]) if found else system["words"].get(metric, "")


def _peers(compare: Figures) -> str:
    """How every system was configured, and what it does not do."""
    rows = [
        [name, TITLES[store], system["version"] or "", system["note"], system.get("lacks", "")]
        for store, found in compare.items()
        for name, system in _ours_first(found["systems"])
    ]
    heads = ["", "store", "version", "configured", "what it does not do"]
    return "\n\n".join([prose("peers"), _markdown(heads, rows)])


def _recovery(figures: Figures) -> str:
    patience = plan_of(figures, "recovery")["recovery_patience"]
    rows = [
        [each["system"], TITLES[each["store"]], f"{each['jobs']:,}", *_recovered(each, patience)]
        for each in figures["recovery"]
    ]
    shown = _shown([pictures.of_recovery(figures["recovery"], patience)])
    heads = ["", "store", "jobs", "not done", "doubled", "seconds until the last was done"]
    return "\n\n".join([prose("recovery", patience=patience), *shown, _markdown(heads, rows)])


def _recovered(each: Figures, patience: float) -> list[str]:
    if each["failure"]:
        return ["failed", "", ""]
    seconds = f"more than {patience:g}" if each["seconds"] is None else f"{each['seconds']:.1f}"
    return [str(each["lost"]), str(each["doubled"]), seconds]


def _scale(figures: Figures) -> str:
    parts = [prose("scale")]
    for store, found in figures["scale"].items():
        rows = [_cost(cost, kind) for kind in ("workers", "producers") for cost in found[kind]]
        heads = ["", "", "processes", "jobs/s", "processes, µs a job", "server, µs a job", "cores busy in the server"]
        parts += [f"### {TITLES[store]}", *_shown([pictures.of_scale(store, found)]), _markdown(heads, rows)]
    return "\n\n".join(parts)


def _cost(cost: Figures, kind: str) -> list[str]:
    own, server = (cost[name] / cost["jobs"] * 1e6 for name in ("own_seconds", "server_seconds"))
    rate, busy = cost["jobs"] / cost["seconds"], cost["server_seconds"] / cost["seconds"]
    return [kind, cost["what"], str(cost["processes"]), f"{rate:,.0f}", f"{own:,.1f}", f"{server:,.1f}", f"{busy:.2f}"]


def _backlog(figures: Figures) -> str:
    rows = [
        [TITLES[store], f"{each['waiting']:,}", *(f"{each['ms'][name]:.2f}" for name in CALLS),
         f"{each['cost']['claim']:,.1f} {each['cost_unit']}", f"{each['claim_growth']:.2f} x"]
        for store, fields in figures["backlog"].items() for each in fields
    ]  # fmt: skip
    heads = [
        "",
        "waiting jobs",
        "enqueue, ms",
        "claim, ms",
        "settle, ms",
        "a claim costs the store",
        "beside the fewest",
    ]
    shown = _shown([pictures.of_backlog(figures["backlog"])])
    return "\n\n".join([prose("backlog"), *shown, _markdown(heads, rows)])


def _sustained(figures: Figures) -> str:
    seconds = plan_of(figures, "sustained")["sustained"]
    rows = [
        [TITLES[store], f"{slices[0]['rate']:,.0f}", f"{_last_half(slices, 'rate'):,.0f}",
         f"{_last_half(slices, 'rate') / slices[0]['rate']:.2f} x", f"{_last_half(slices, 'own_us'):,.0f}",
         f"{_last_half(slices, 'server_us'):,.0f}", f"{slices[-1]['store_mb']:,.0f}"]
        for store, slices in figures["sustained"].items()
    ]  # fmt: skip
    heads = [
        "",
        "first slice, jobs/s",
        "last half, jobs/s",
        "",
        "processes, µs a job",
        "server, µs a job",
        "store at the end, MB",
    ]
    shown = _shown([pictures.of_sustained(figures["sustained"], seconds)])
    return "\n\n".join([prose("sustained", seconds=seconds), *shown, _markdown(heads, rows)])


def _last_half(slices: Sequence[Figures], name: str) -> float:
    half = slices[len(slices) // 2 :]
    return float(sum(each[name] for each in half) / len(half))


def _scenarios(figures: Figures) -> str:
    rows = [
        [each["system"], each["phase"], *_phase(each)]
        for each in figures["scenarios"]
    ]  # fmt: skip
    heads = ["", "phase", "offered, jobs/s", "completed, jobs/s", "wait p95, ms", "dead rows at its end"]
    return "\n\n".join([prose("scenarios", seconds=plan_of(figures, "scenarios")["held"]), _markdown(heads, rows)])


def _harness(figures: Figures) -> str:
    found = figures["harness"]
    rows = [
        [each["phase"], each["type"], f"{each['offered']:,.0f}", f"{each['completed']:,.0f}", f"{each['p95_ms']:,.1f}",
         f"{each['dead_rows']:,.0f}", _or_blank(each["lost"], "{:,.0f}"), _or_blank(each["recovery_s"], "{:.1f}")]
        for each in found["phases"]
    ]  # fmt: skip
    heads = [
        "phase",
        "of the kind",
        "enqueued, jobs/s",
        "completed, jobs/s",
        "wait p95, ms",
        "dead rows, peak",
        "jobs lost",
    ]
    return "\n\n".join([prose("harness", **found), _markdown([*heads, "seconds to recover"], rows)])


def _or_blank(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def _phase(each: Figures) -> list[str]:
    if each["failure"]:
        return ["failed", "", "", ""]
    return [f"{each['offered']:,.0f}", f"{each['completed']:,.0f}", f"{each['p95_ms']:,.1f}", f"{each['dead_rows']:,}"]


def _left_out(figures: Figures) -> str:
    """What the sizes of this run leave out, and the command that adds it."""
    lines = [_peers_left_out(figures)] if figures.get("compare") else []
    if figures.get("backlog"):
        most = max(each["waiting"] for fields in figures["backlog"].values() for each in fields)
        lines += [prose("no_backlog", most=most, wanted=MOST_BACKLOG)] if most < MOST_BACKLOG else []
    if figures.get("sustained"):
        seconds = plan_of(figures, "sustained")["sustained"]
        lines += [prose("no_sustained", seconds=seconds)] if seconds < LONGEST_SUSTAINED else []
    lines += [prose("no_harness")] if not figures.get("harness") else []
    listed = "\n".join(f"- {line}" for line in lines if line)
    return f"{prose('left_out')}\n\n{listed}" if listed else ""


def _peers_left_out(figures: Figures) -> str:
    """The peers that the benchmarks know, and this run did not measure."""
    others = [
        f"{', '.join(names)} on {TITLES[store]}"
        for store, found in figures["compare"].items()
        if (
            names := [
                name for name, rows in known(store).items() if not {row.name for row in rows} & {*found["systems"]}
            ]
        )
    ]
    return prose("no_peers", others="; ".join(others)) if others else ""


def _missing(figures: Figures) -> str:
    failures = [line for found in figures.get("compare", {}).values() for line in dict.fromkeys(found["failures"])]
    failures += [f"{each['system']}: {each['failure']}" for each in figures.get("recovery", ()) if each["failure"]]
    failures += [f"{each['system']}: {each['failure']}" for each in figures.get("scenarios", ()) if each["failure"]]
    failures += [f"{name}: {why}" for name, why in figures["missing"].items()]
    listed = "\n".join(f"- `{line}`" for line in failures)
    return f"{prose('missing')}\n\n{listed}" if failures else ""


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


SECTIONS = {
    "compare": _compare,
    "recovery": _recovery,
    "scale": _scale,
    "backlog": _backlog,
    "sustained": _sustained,
    "scenarios": _scenarios,
    "harness": _harness,
}
