"""Prometheus itself takes the alert rules and the queries of Grafana's dashboard, and alerts fire when they should."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import debian
import httpx
import pytest
import servers
from support import eventually, working
from test_files import ALERTS, DASHBOARD, FOLDER, expressions

from holdfast import Holdfast, Permanent

RULES = FOLDER / "alerts.yaml"
VARIABLES = {"$queue": ".*", "$__rate_interval": "1m", "${datasource}": "prometheus"}
QUERIES = sorted({each for each in expressions(DASHBOARD) if "(" in each and not each.startswith("label_values")})


def promtool(*words: str | Path) -> str:
    """Return what promtool prints; it must be content."""
    done = subprocess.run([debian.PROMTOOL, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def filled_in(query: str) -> str:
    """Return a query as Grafana sends it: with values for its variables."""
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    assert "$" not in query
    return query


def test_prometheus_reads_the_alert_rules() -> None:
    assert f"{ALERTS.count('- alert: ')} rules found" in promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)


def test_prometheus_reads_every_query_of_the_dashboard(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": filled_in(each)} for number, each in enumerate(QUERIES)]
    file = tmp_path / "panels.json"  # which is YAML, too
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(QUERIES)} rules found" in promtool("check", "rules", file)


# --- when alerts fire


class Alarm(NamedTuple):
    """Series that make one alert fire after some minutes, and what it says then."""

    series: dict[str, str]
    """By their name: values, one a minute."""
    minutes: int
    labels: dict[str, str]
    summary: str


MAIL = {"queue": "mail"}
SEND = {"queue": "mail", "task": "send"}
STARTED = 'holdfast_jobs_started_total{queue="mail",task="send"}'
FIRING = {
    "HoldfastBacklogGrows": Alarm(
        {'holdfast_queue_jobs{queue="mail",state="waiting"}': "1000+100x60"}, 60, MAIL,
        "Queue mail has 7000 jobs waiting, and more come than go.",
    ),
    "HoldfastOldestJobTooOld": Alarm(
        {
            'holdfast_queue_oldest_ready_age_seconds{queue="mail"}': "660x20",
            'holdfast_queue_paused{queue="mail"}': "0x20",
        },
        10, MAIL, "A job of queue mail could have run 11m 0s ago.",
    ),
    "HoldfastScheduledJobsLate": Alarm(
        {'holdfast_queue_scheduled_overdue_seconds{queue="mail"}': "400x20"}, 10, MAIL,
        "A scheduled job of queue mail is 6m 40s late.",
    ),
    "HoldfastJobsFail": Alarm(
        {'holdfast_jobs_failed_total{queue="mail",task="send",cause="failure"}': "0+6x60", STARTED: "0+60x60"}, 40,
        SEND, "10% of the attempts of send in mail fail for good.",
    ),
    "HoldfastJobsRetried": Alarm(
        {'holdfast_jobs_retried_total{queue="mail",task="send",cause="failure"}': "0+45x60", STARTED: "0+60x60"}, 40,
        SEND, "More than half of the attempts of send in mail fail and are tried again.",
    ),
    "HoldfastJobsStall": Alarm(
        {'holdfast_jobs_stalled_total{queue="mail",task="send"}': "0x5 1x20"}, 10, SEND,
        "Workers vanished while they ran send of mail.",
    ),
    "HoldfastLeaseLost": Alarm(
        {'holdfast_worker_events_total{event="lease_lost"}': "0x5 1x20"}, 10, {"event": "lease_lost"},
        "Workers were cut off from the store (lease_lost): what their handlers did may run again.",
    ),
    "HoldfastNoWorker": Alarm(
        {'holdfast_queue_workers{queue="mail"}': "0x20", 'holdfast_queue_jobs{queue="mail",state="scheduled"}': "2x20"},
        10, MAIL, "Queue mail has jobs, and no worker serves it.",
    ),
    "HoldfastNoSlots": Alarm(
        {
            'holdfast_worker_slots{worker="w",state="free"}': "0x30",
            'holdfast_queue_jobs{queue="mail",state="waiting"}': "9x30",
        },
        20, {}, "All slots of all workers have been busy for a while, and jobs wait.",
    ),
    "HoldfastStoreErrors": Alarm(
        {'holdfast_store_errors_total{call="extend"}': "0+60x20"}, 15, {"call": "extend"},
        "Calls to the store fail: extend, 1 a second.",
    ),
    "HoldfastStoreAway": Alarm({"holdfast_store_up": "0x5"}, 3, {}, "The store does not answer."),
    "HoldfastLakeLate": Alarm(
        {'holdfast_log_reader_delay_seconds{reader="lake"}': "7200x20"}, 10, {"reader": "lake"},
        "Reader lake of the event log is 2h 0m 0s behind.",
    ),
    "HoldfastLakeBehind": Alarm(
        {'holdfast_log_reader_lag{reader="lake"}': "200000x30"}, 20, {"reader": "lake"},
        "Reader lake of the event log is 200000 events behind.",
    ),
}  # fmt: skip
QUIET = {
    'holdfast_queue_jobs{queue="mail",state="waiting"}': "5000-10x60",  # a backlog that shrinks
    'holdfast_queue_oldest_ready_age_seconds{queue="mail"}': "5000x60",  # of a queue that is paused
    'holdfast_queue_paused{queue="mail"}': "1x60",
    'holdfast_queue_workers{queue="mail"}': "1x60",
    'holdfast_queue_scheduled_overdue_seconds{queue="mail"}': "1x60",
    'holdfast_jobs_failed_total{queue="mail",task="send",cause="failure"}': "0+1x60",
    'holdfast_jobs_retried_total{queue="mail",task="send",cause="failure"}': "0+10x60",
    STARTED: "0+60x60",
    'holdfast_jobs_stalled_total{queue="mail",task="send"}': "3x60",
    'holdfast_worker_events_total{event="lease_lost"}': "2x60",
    'holdfast_worker_slots{worker="w",state="free"}': "0x10 1x50",
    'holdfast_store_errors_total{call="extend"}': "0+1x60",
    "holdfast_store_up": "1x60",
    'holdfast_log_reader_delay_seconds{reader="lake"}': "60x60",
    'holdfast_log_reader_lag{reader="lake"}': "1000x60",
}


def rule(name: str) -> tuple[str, str]:
    """Return the severity of an alert, and what it says to do, by the file."""
    text = ALERTS.partition(f"- alert: {name}\n")[2].partition("- alert: ")[0]
    (severity,), (todo,) = re.findall(r"severity: (\w+)", text), re.findall(r'todo: "(.*)"', text)
    return severity, todo.replace("{{ $labels.queue }}", "mail")


def expected(name: str, alarm: Alarm) -> dict[str, Any]:
    severity, todo = rule(name)
    return {
        "exp_labels": {**alarm.labels, "severity": severity},
        "exp_annotations": {"summary": alarm.summary, "todo": todo},
    }


def case(series: dict[str, str], name: str, minutes: int, alerts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "interval": "1m",
        "input_series": [{"series": each, "values": values} for each, values in series.items()],
        "alert_rule_test": [{"eval_time": f"{minutes}m", "alertname": name, "exp_alerts": alerts}],
    }


def test_every_alert_fires_when_it_should_and_says_what_is_wrong(tmp_path: Path) -> None:
    assert set(FIRING) == set(re.findall(r"- alert: (\w+)", ALERTS))
    tests = [case(alarm.series, name, alarm.minutes, [expected(name, alarm)]) for name, alarm in FIRING.items()]
    file = tmp_path / "firing.json"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", file)


def test_no_alert_fires_where_all_is_well(tmp_path: Path) -> None:
    tests = [case(QUIET, name, minutes, []) for name in FIRING for minutes in (20, 40, 60)]
    file = tmp_path / "quiet.json"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", file)


# --- a real server


@pytest.fixture
def app(tmp_path: Path) -> Holdfast:
    """An app with a task that ends in both ways."""
    made = Holdfast(f"sqlite:///{tmp_path}/jobs.db")

    @made.task(queue="mail")
    async def send(number: int) -> int:
        if number % 2:
            raise Permanent("odd")
        return number

    return made


@asynccontextmanager
async def scraping(folder: Path, target: str) -> AsyncIterator[httpx.AsyncClient]:
    """A Prometheus with our rules scrapes a worker; yield a client of it."""
    jobs = [
        {"job_name": name, "metrics_path": path, "scrape_interval": "1s", "static_configs": [{"targets": [target]}]}
        for name, path in (("worker", "/metrics"), ("store", "/metrics/store"))
    ]
    config = folder / "prometheus.json"
    config.write_text(json.dumps({"rule_files": [str(RULES)], "scrape_configs": jobs}))
    port = servers.free_port()
    words = [f"--config.file={config}", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "prometheus.log").open("w") as log:
        process = await asyncio.create_subprocess_exec(debian.PROMETHEUS, *words, stdout=log, stderr=log)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api/v1") as client:
            yield client
    finally:
        process.terminate()
        await process.wait()


async def answer(client: httpx.AsyncClient, path: str, **params: str) -> Any:
    """Return the data of an answer; `None` while the server does not answer."""
    try:
        found = await client.get(path, params=params)
    except httpx.TransportError:
        return None
    if found.status_code == 503:
        return None  # it is starting
    assert found.status_code == 200, f"{params}: {found.text}"
    return found.json()["data"]


async def test_prometheus_scrapes_a_worker_and_answers_every_query_of_the_dashboard(
    app: Holdfast, tmp_path: Path
) -> None:
    send = app.registry.tasks["send"]
    async with working(app, metrics_port=0) as running:
        await send.enqueue_many(send.args(number) for number in range(20))
        async with scraping(tmp_path, running.worker.urls[0].removeprefix("http://")) as client:

            async def are_scraped() -> bool:
                found = await answer(client, "/query", query="count_over_time(holdfast_store_up[1m]) > 1")
                return found is not None and len(found["result"]) == 1

            await eventually(are_scraped, "both pages were scraped", 30)
            up = await answer(client, "/query", query="up")
            assert {each["metric"]["job"]: each["value"][1] for each in up["result"]} == {"worker": "1", "store": "1"}
            failed = await answer(client, "/query", query='sum(holdfast_jobs_failed_total{queue="mail"})')
            assert failed["result"][0]["value"][1] == "10"
            found = {query: await answer(client, "/query", query=filled_in(query)) for query in QUERIES}
            rules = (await answer(client, "/rules"))["groups"][0]["rules"]
    assert found['sum(holdfast_queue_jobs{queue=~"$queue",state="waiting"})']["result"]
    assert {each["health"] for each in rules} <= {"ok", "unknown"}
    assert len(rules) == len(FIRING)
