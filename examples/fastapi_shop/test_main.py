"""The shop's tests: views with the real lifespan, on a store in memory; jobs run when the test says so."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from jobs import Invoice, jobs
from main import api

from holdfast.testing import drain, isolate

ORDER = {"number": 7, "item": "lamp", "to": "ann@example.com"}


@pytest.fixture
def client() -> Iterator[TestClient]:
    with isolate(jobs), TestClient(api, base_url="http://localhost") as client:
        yield client


def test_an_order_is_taken_at_once_and_billed_by_a_worker(client: TestClient) -> None:
    taken = client.post("/orders", json=ORDER)
    assert (taken.status_code, taken.json()["status"]) == (202, "queued")
    assert client.get("/orders/7").json() == {"state": "waiting", "attempts": 0}
    assert client.get("/backlog").json()["orders"] == 1
    assert client.portal is not None
    ran = client.portal.call(drain, jobs)
    assert [(each.task, each.outcome) for each in ran] == [("bill", "completed"), ("confirm", "completed")]
    assert ran[0].result == Invoice(7, 400)
    assert client.get("/orders/7").json() == {"state": "completed", "attempts": 1}


def test_an_order_that_is_sent_twice_is_billed_once(client: TestClient) -> None:
    client.post("/orders", json=ORDER)
    assert client.post("/orders", json=ORDER).json()["status"] == "duplicate"


def test_an_unknown_order(client: TestClient) -> None:
    assert client.get("/orders/8").status_code == 404


def test_the_dashboard_is_mounted(client: TestClient) -> None:
    assert "Holdfast" in client.get("/jobs/", headers={"accept": "text/html"}).text
