"""Probes and metrics of a server, on every store and without it."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import httpx
import pytest
import servers
from probe import Scrape
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from test_serve import served
from web_case import OPERATOR, TOKEN, asking, kind_of, serving

from holdfast import Holdfast
from holdfast.web import create_app, probes

HERE = "http://localhost"


async def test_the_server_shows_the_metrics_of_its_store(store_url: str) -> None:
    async with serving(store_url) as client:
        await client.post("/jobs/bulk", json={"jobs": [{"queue": "mail", "payload": n} for n in range(3)]})
        answer = await client.get(f"{HERE}/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        found = Scrape(answer.text)
        assert found.value("holdfast_store_up") == 1
        assert found.value("holdfast_queue_jobs", queue="mail", state="waiting") == 3
        opened = await client.get(f"{HERE}/metrics", headers={"accept": "application/openmetrics-text"})
        assert opened.headers["content-type"].startswith("application/openmetrics-text")
        assert list(text_string_to_metric_families(opened.text))
        assert (await client.get(f"{HERE}/live")).json() == {"live": True}
        assert (await client.get(f"{HERE}/ready")).json() == {"ready": True, "reasons": []}


def test_serve_counts_what_comes_in_through_it(url: str) -> None:
    subprocess.run([sys.executable, "-m", "holdfast", "migrate", "--url", url], check=True, capture_output=True)
    with served("--url", url, "--port", "0") as (said, _):
        httpx.post(f"{said['address']}api/v1/jobs", json={"queue": "mail", "payload": 1}).raise_for_status()
        found = Scrape(httpx.get(f"{said['address']}metrics").text)
        assert found.value("holdfast_jobs_enqueued_total", queue="mail") == 1
        assert found.value("holdfast_queue_jobs", queue="mail", state="waiting") == 1
        assert httpx.get(f"{said['address']}ready").status_code == 200


async def test_metrics_need_a_caller_and_probes_none(url: str) -> None:
    async with asking(create_app(url, tokens=[TOKEN])) as client:
        assert kind_of(await client.get(f"{HERE}/metrics")) == "unauthenticated"
        assert (await client.get(f"{HERE}/metrics", headers=OPERATOR)).status_code == 200
        assert (await client.get(f"{HERE}/live")).status_code == 200
        assert (await client.get(f"{HERE}/ready")).status_code == 200


async def test_a_store_that_is_away_is_a_measure_and_makes_the_server_unready() -> None:
    async with asking(create_app(f"redis://127.0.0.1:{servers.free_port()}")) as client:
        assert Scrape((await client.get(f"{HERE}/metrics")).text).value("holdfast_store_up") == 0
        assert (await client.get(f"{HERE}/live")).status_code == 200
        unready = await client.get(f"{HERE}/ready")
        reasons = ["the store cannot be used (StoreError)"]
        assert (unready.status_code, unready.json()) == (503, {"ready": False, "reasons": reasons})


async def test_a_store_that_hangs_makes_the_server_unready(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Holdfast(url)
    monkeypatch.setattr(probes, "PATIENCE", 0.01)
    async with asking(create_app(app)) as client:
        assert (await client.get(f"{HERE}/live")).status_code == 200
        await client.get("/queues")  # the app is open
        monkeypatch.setattr(app.store, "now_ms", asyncio.Event().wait)
        unready = await client.get(f"{HERE}/ready")
        assert (unready.status_code, unready.json()["reasons"]) == (503, ["the store has not answered for 0.01 s"])


async def test_a_server_that_stops_is_not_ready(url: str) -> None:
    web = create_app(Holdfast(url))
    async with asking(web) as client:
        assert (await client.get(f"{HERE}/ready")).status_code == 200
        await web.state.site.stop()
        unready = await client.get(f"{HERE}/ready")
        assert (unready.status_code, unready.json()["reasons"]) == (503, ["stopping"])
