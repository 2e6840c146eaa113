"""Take all figures of the page, in one run, and say where and how they were taken."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rich.console import Console

from benchmarks import curve, recovery, sustained
from benchmarks import store as places
from benchmarks.compare import report, rounds, target
from benchmarks.compare.environment import NotInstallable, command
from benchmarks.compare.systems import systems
from benchmarks.page.kept import beside, others
from benchmarks.page.plan import RATES, PagePlan
from benchmarks.scale import __main__ as scale
from benchmarks.third_party import harness, harness_run, scenarios

Tell = Callable[[str], None]
CALLS = 200


def take(plan: PagePlan, tell: Tell, before: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """The figures of the plan's parts, and those of the others as they were taken before.

    A part that fails is told, and left out of the page.
    """
    install(plan, tell)
    figures: dict[str, Any] = {name: before[name] for name in ("parts", "missing", *PARTS) if name in before}
    figures["parts"], figures["missing"] = dict(figures.get("parts", {})), dict(figures.get("missing", {}))
    load = os.getloadavg()[0]  # later it has what the parts themselves have done
    for name in plan.parts:
        kept = others(plan, name, figures)
        for known in (figures, figures["parts"], figures["missing"]):
            known.pop(name, None)
        stamp = {"taken": _now(), "load_before": load, "plan": asdict(_without_paths(plan))}
        begun = time.monotonic()
        try:
            figures[name] = beside(PARTS[name](plan, tell), kept)
            stamp["others"] = kept.taken
        except (Exception, SystemExit) as error:
            figures["missing"][name] = f"{type(error).__name__}: {error}"
        seconds = time.monotonic() - begun
        figures["parts"][name] = {**stamp, "load_after": os.getloadavg()[0], "seconds": seconds}
        tell(f"{name}: {seconds:.0f} s")
    return {**figures, "machine": _machine(), "versions": _versions()}


def install(plan: PagePlan, tell: Tell) -> None:
    """The environments of all systems are there, so that nobody's figure has an installation in it."""
    chosen = [each for store in plan.stores for each in systems(store, plan.peers[store])]
    chosen += [each for store in plan.stores for each in recovery.survivors(store, plan.survivors)]
    chosen += [harness.INNER] if plan.clone else []
    for system in {each.script: each for each in chosen if each.packages}.values():
        tell(f"at hand: {system.name}")
        with suppress(NotInstallable):  # which the page then says
            command(system)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _compare(plan: PagePlan, tell: Tell) -> dict[str, Any]:
    return {store: _compare_on(store, plan, tell) for store in plan.stores}


def _compare_on(store: str, plan: PagePlan, tell: Tell) -> dict[str, Any]:
    """The rates over several rounds, the rest once."""
    chosen = systems(store, plan.peers[store])
    whole = rounds.Plan(chosen, RATES, plan.jobs, plan.peer_jobs, plan.rounds, plan.patience)
    outcome = rounds.run(whole, tell)
    rest = rounds.run(replace(whole, measures=plan.others, rounds=1), tell)
    outcome.figures.update(rest.figures)
    outcome.words.update(rest.words)
    outcome.versions.update(rest.versions)
    outcome.failures += rest.failures
    return report.as_json(whole, outcome, target.judge(store, outcome))


def _recovery(plan: PagePlan, tell: Tell) -> list[dict[str, Any]]:
    chosen = [each for store in plan.stores for each in recovery.survivors(store, plan.survivors)]
    return [asdict(each) for each in recovery.measure(chosen, plan.recovery_jobs, plan.recovery_patience, tell)]


def _scale(plan: PagePlan, tell: Tell) -> dict[str, Any]:
    counts = list(plan.processes)
    return {
        store: scale.as_json(scale.measure(store, counts, plan.scale_jobs, tell, plan.shapes)) for store in plan.stores
    }


def _curve(plan: PagePlan, tell: Tell) -> dict[str, Any]:
    """The cost of a claim by how many jobs wait, without keys."""
    found = {}
    for store in plan.stores:
        tell(f"backlog, {store}")
        console = Console(quiet=True)
        fields, unit = asyncio.run(curve.measure(store, curve.plots(plan.backlog, 0), CALLS, console))
        found[store] = [curve.as_json(field, fields, unit) for field in fields]
    return found


def _sustained(plan: PagePlan, tell: Tell) -> dict[str, Any]:
    return {store: [asdict(each) for each in sustained.measure(store, plan.sustained, tell)] for store in plan.stores}


def _held(plan: PagePlan, tell: Tell) -> list[dict[str, Any]]:
    return [asdict(each) for each in scenarios.measure(plan.held, tell)] if "postgres" in plan.stores else []


def _harness(plan: PagePlan, tell: Tell) -> dict[str, Any]:
    """The third-party harness itself, where there is a clone of it."""
    return harness_run.take(Path(plan.clone), plan.held, tell) if plan.clone else {}


PARTS: dict[str, Callable[[PagePlan, Tell], Any]] = {
    "compare": _compare,
    "recovery": _recovery,
    "scale": _scale,
    "backlog": _curve,
    "sustained": _sustained,
    "scenarios": _held,
    "harness": _harness,
}


def _machine() -> dict[str, Any]:
    names = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    memory = next((line.split()[1] for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), "0")
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(int(memory) / 1e6),
        "system": f"{platform.system()} {platform.release()}",
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def _versions() -> dict[str, str]:
    found = {"holdfast-queue": version("holdfast-queue"), "Python": platform.python_version()}
    found |= {"SQLite": sqlite3.sqlite_version, **_servers()}
    if node := shutil.which("node"):
        found["Node"] = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return found


def _servers() -> dict[str, str]:
    import psycopg
    import redis

    with tempfile.TemporaryDirectory() as folder:
        with places.redis(Path(folder)) as url, redis.Redis.from_url(url) as client:
            info = client.info("server")
            name = "Valkey" if "valkey_version" in info else "Redis"
            found = {name: str(info.get("valkey_version", info["redis_version"]))}
        with places.postgres(Path(folder)) as url, psycopg.connect(url) as connection:
            row = connection.execute("SHOW server_version").fetchone()
            return {**found, "PostgreSQL": row[0] if row else ""}


def _without_paths(plan: PagePlan) -> PagePlan:
    """The plan as it is kept: where a clone lies is this machine's business."""
    return replace(plan, clone=Path(plan.clone).name)
