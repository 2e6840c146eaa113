"""The shop's tests: views and handlers in one process, on a store in memory."""

from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient
from jobs import jobs
from shop import create_app

from holdfast.testing import drain, isolate


@pytest.fixture
def client() -> Iterator[FlaskClient]:
    with isolate(jobs), jobs.sync:
        yield create_app(SENDER="test@example.com").test_client()


def test_an_order_is_confirmed_by_a_worker(client: FlaskClient) -> None:
    taken = client.post("/orders", json={"number": 7, "to": "ann@example.com"})
    assert (taken.status_code, taken.json) == (202, {"job": "7", "status": "queued"})
    (ran,) = jobs.sync(drain(jobs))
    assert ran.result == "test@example.com -> ann@example.com: order 7 is on its way"
    assert client.get("/orders/7").json == {"state": "completed"}


def test_an_order_that_is_sent_twice_is_confirmed_once(client: FlaskClient) -> None:
    client.post("/orders", json={"number": 7, "to": "ann@example.com"})
    again = client.post("/orders", json={"number": 7, "to": "ann@example.com"})
    assert again.json == {"job": "7", "status": "duplicate"}


def test_an_unknown_order(client: FlaskClient) -> None:
    assert client.get("/orders/8").status_code == 404
