"""The dashboard and the alert rules name only what workers and stores really expose; so does the page of metrics."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cli_shop import Process
from places import STORES, place
from probe import Scrape, scrape
from support import declare_dead, eventually

from holdfast import Holdfast, JobMissing, State
from holdfast.store.contract import NewJob
from holdfast.telemetry import files
from holdfast.telemetry.metrics.exposition import exposition
from holdfast.telemetry.metrics.store import StoreMeter
from holdfast.telemetry.metrics.table import PROCESS_TABLE, STORE_TABLE, TABLE

ROOT = Path(__file__).parents[3]
FOLDER = Path(files.__file__).parent
NAME = re.compile(r"\bholdfast_\w+")
SUFFIX = re.compile(r"_(bucket|sum|count)$")
EXPOSED = {metric.exposed for metric in TABLE}


def expressions(value: Any) -> list[str]:
    """Return every query of a dashboard."""
    if isinstance(value, dict):
        own = [str(value[name]) for name in ("expr", "query", "definition") if isinstance(value.get(name), str)]
        return own + [each for inner in value.values() for each in expressions(inner)]
    return [each for inner in value for each in expressions(inner)] if isinstance(value, list) else []


def names(text: str) -> set[str]:
    """Return the metrics that a query names."""
    histograms = {metric.exposed for metric in TABLE if metric.kind == "histogram"}
    found = set()
    for name in NAME.findall(text):
        plain = SUFFIX.sub("", name)
        found.add(plain if plain in histograms else name)
    return found


def labels(text: str) -> list[tuple[str, set[str]]]:
    """Return each metric of a query, and the labels by which it is chosen."""
    chosen = re.findall(r"\b(holdfast_\w+)\{([^}]*)\}", text)
    return [(name, set(re.findall(r"(\w+)(?==|!|=~)", inner))) for name, inner in chosen]


DASHBOARD = json.loads((FOLDER / "grafana.json").read_text())
ALERTS = (FOLDER / "alerts.yaml").read_text()
QUERIES = [*expressions(DASHBOARD), *re.findall(r"expr: (?:>-\n)?((?:(?!\n {8}\w).)*)", ALERTS, re.DOTALL)]


def test_every_query_names_a_metric_of_the_table_and_its_labels() -> None:
    known = {metric.exposed: set(metric.labels) for metric in TABLE}
    for query in QUERIES:
        assert names(query) <= EXPOSED, query
        for name, by in labels(query):
            assert by <= known[names(name).pop()] | {"le"}, query


def test_the_dashboard_shows_every_metric() -> None:
    shown = set().union(*(names(query) for query in expressions(DASHBOARD)))
    assert EXPOSED - shown == set()


def test_the_panels_of_the_dashboard_are_whole() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in DASHBOARD["panels"]:
        assert panel["type"] == "row" or panel["targets"], panel["title"]
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24


def test_every_alert_has_an_expression_a_severity_and_something_to_do() -> None:
    rules = ALERTS.split("- alert: ")[1:]
    wanted = {
        "HoldfastBacklogGrows", "HoldfastOldestJobTooOld", "HoldfastJobsFail", "HoldfastJobsStall", "HoldfastNoWorker",
        "HoldfastStoreErrors", "HoldfastLakeBehind", "HoldfastLakeLate",
    }  # fmt: skip
    assert wanted <= {rule.partition("\n")[0] for rule in rules}
    for rule in rules:
        for part in ("expr: ", "severity: ", "summary: ", "todo: "):
            assert part in rule, rule


def test_the_page_of_metrics_has_the_table() -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    for metric in TABLE:
        kinds = ", ".join(f"`{label}`" for label in metric.labels)
        row = f"| `{metric.exposed}` | `{metric.name}` | {metric.kind} | {kinds} | {metric.help} |"
        assert row in page, row
    assert set(NAME.findall(page)) - EXPOSED <= {f"{metric.family}_bucket" for metric in TABLE}


# --- what is really exposed


SEEN_IT_ALL = """
import os, signal, threading
from holdfast import Holdfast, Job, Permanent, Retry, Snooze

app = Holdfast("sqlite:///jobs.db", retry=Retry(failures=2, stalls=1, timeouts=1, initial=0.01))
app.queue("all", retention={"completed": 0.01}, result_ttl=0.01)


@app.task(queue="all")
async def run(job: Job, how: str) -> None:
    if how == "fail":
        raise Permanent("never")
    if how == "retry" and job.attempt == 1:
        raise ValueError("once")
    if how == "snooze" and job.snoozes == 0:
        raise Snooze(after=0.01)
    if how == "enqueue":
        for _ in range(2):
            await run.options(job_id="twice").enqueue("complete")
    if how == "wait":
        await job.signal.wait()
        job.signal.check()


@app.task(queue="all", executor="process")
def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(queue="all", executor="process")
def fine() -> None: ...


@app.task(queue="all", executor="process", timeout=0.1)
def over_time() -> None:
    threading.Event().wait()
"""


@pytest.mark.timeout(60)
async def test_workers_expose_every_metric_of_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that has seen it all: retries, stalls, kills, deaths, recycling, a lease that was lost."""
    (tmp_path / "shop.py").write_text(SEEN_IT_ALL)
    words = ("--metrics-port", "0", "--json", "--pool", "1", "--recycle-jobs", "1", "--grace", "0.2", "--lease", "2")
    with closing(Process(tmp_path, "worker", *words)) as process:
        (url,) = json.loads(await asyncio.to_thread(process.line, "started"))["ports"]
        async with Holdfast(f"sqlite:///{tmp_path}/jobs.db") as app:
            jobs = [NewJob(id=how, task="run", payload=_encoded(how)) for how in HOWS]
            jobs += [
                NewJob(id=name, task=name, payload=_encoded()) for name in ("crash", "fine", "over_time", "nobody")
            ]
            await app.store.enqueue("all", jobs)
            for number in range(2):
                await eventually(lambda number=number: _is_active(app, f"wait-{number}"))
            await app.cancel("all", "wait-0", "signal")
            await eventually(lambda: _is_cancelled(app, "wait-0"))
            wanted = {metric.exposed for metric in PROCESS_TABLE}
            await until_exposed(url, wanted - {"holdfast_jobs_lost_total"})
            await declare_dead(app)
            exposed = await until_exposed(url, wanted)
        process.signal(signal.SIGTERM)
        process.signal(signal.SIGINT)
        await asyncio.to_thread(process.end)
    assert exposed <= EXPOSED


HOWS = ("complete", "retry", "fail", "snooze", "enqueue", "wait-0", "wait-1")


def _encoded(how: str | None = None) -> bytes:
    return msgspec.json.encode({} if how is None else {"how": how.partition("-")[0]})


async def _is_active(app: Holdfast, id: str) -> bool:
    return (await app.status("all", id)).state is State.ACTIVE


async def _is_cancelled(app: Holdfast, id: str) -> bool:
    try:
        return (await app.status("all", id)).state is State.CANCELLED
    except JobMissing:
        return True  # and gone already


async def until_exposed(url: str, wanted: set[str]) -> set[str]:
    """Return all names that are exposed, once the wanted ones are; say which of them never were."""
    found = set[str]()

    async def are_there() -> bool:
        found.update((await scrape(f"{url}/metrics")).names)
        return wanted <= found

    try:
        await eventually(are_there)
    except AssertionError:
        raise AssertionError(f"never exposed: {wanted - found}") from None
    return found


@pytest.mark.parametrize("kind", STORES)
async def test_a_store_exposes_what_the_table_says(kind: str, tmp_path: Path) -> None:
    with place(kind, tmp_path) as url:
        async with Holdfast(url) as app:
            await app.queue("mail").enqueue(1)
            await app.store.hold("lake", (await app.store.events("end-1000", limit=1)).position)
            await app.queue("mail").enqueue(2)
            found = Scrape(exposition(await StoreMeter(app.store).samples()))
    assert found.names <= {metric.exposed for metric in STORE_TABLE}
    assert found.value("holdfast_queue_jobs", queue="mail", state="waiting") == 2
    assert found.value("holdfast_queue_oldest_ready_age_seconds", queue="mail") is not None
    assert found.value("holdfast_queue_workers", queue="mail") == 0
    assert found.value("holdfast_log_reader_lag", reader="lake") == 1
    assert found.value("holdfast_log_reader_delay_seconds", reader="lake") is not None
    unseen = {metric.exposed for metric in STORE_TABLE} - found.names
    assert unseen <= {"holdfast_log_size_bytes"}
