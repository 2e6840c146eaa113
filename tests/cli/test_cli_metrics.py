"""`holdfast metrics`: print or serve the measures of a store, and the files for Prometheus and Grafana."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from cli_shop import Process, Shop, in_shop
from probe import Scrape, get
from prometheus_client.openmetrics.parser import text_string_to_metric_families


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop in the current folder, named by HOLDFAST_APP."""
    with in_shop(tmp_path, monkeypatch) as shop:
        yield shop


def test_it_prints_the_measures_once(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann")
    found = Scrape(shop.ok("metrics"))
    assert found.value("holdfast_queue_jobs", queue="mail", state="waiting") == 1
    assert found.value("holdfast_store_workers") == 0
    assert list(text_string_to_metric_families(shop.ok("metrics", "--open-metrics")))


def test_it_prints_the_dashboard_and_the_alerts_without_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path)
    monkeypatch.delenv("HOLDFAST_APP", raising=False)
    assert json.loads(shop.ok("metrics", "--grafana"))["title"] == "Holdfast"
    assert "alert: HoldfastNoWorker" in shop.ok("metrics", "--alerts")


def test_it_serves_a_store_that_has_no_worker(shop: Shop) -> None:
    with closing(Process(shop.folder, "metrics", "--url", "sqlite:///jobs.db", "--port", "0")) as process:
        url = process.line("metrics of the store").rpartition(" ")[2]
        shop.ok("enqueue", "send", "to=ann")
        assert Scrape(get(url).body).value("holdfast_store_up") == 1
        assert get(url.removesuffix("/metrics") + "/ready").code == 200
        assert get(url.removesuffix("/metrics") + "/live").code == 200
        process.signal(signal.SIGTERM)
        assert process.end()[0] == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--port", "x"), "--port='x': a port, such as 9100, or the path of a Unix socket"),
        (("--port", "0", "--open-metrics"), "--open-metrics: with --port, the Accept header of whoever asks decides"),
        (("--url", "sqlite:///nowhere.db"), "there is no store at"),
    ],
)
def test_what_it_cannot_do_is_said(shop: Shop, words: tuple[str, ...], why: str) -> None:
    assert why in shop.error("metrics", *words)
