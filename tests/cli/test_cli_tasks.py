"""`holdfast tasks`: policies in force, and an operator's layer above them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_shop import Shop, in_shop


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop in the current folder, whose worker has been there once."""
    with in_shop(tmp_path, monkeypatch) as shop:
        shop.work()
        yield shop


def policy(shop: Shop, task: str) -> dict[str, object]:
    (found,) = [each for each in shop.json("tasks")["tasks"] if each["task"] == task]
    return dict(found)


def test_tasks_lists_what_workers_declared(shop: Shop) -> None:
    assert policy(shop, "boom") == {
        "queue": "mail", "task": "boom", "failures": 1, "stalls": 3, "timeouts": 3, "releases": 100,
        "attempts": None, "snoozes": None,
        "initial": 2.0, "multiplier": 2.0, "maximum": 300.0, "jitter": 0.0, "timeout": 60.0,
    }  # fmt: skip


def test_an_operator_can_give_a_waiting_job_more_tries_and_take_them_back(shop: Shop) -> None:
    shop.ok("tasks", "set", "mail", "boom", "failures=2", "initial=0", "timeout=10m")
    assert policy(shop, "boom")["failures"] == 2
    assert policy(shop, "boom")["timeout"] == 600.0
    shop.ok("enqueue", "boom", "--id", "b")
    shop.work()
    assert shop.json("jobs", "show", "mail", "b")["counters"]["failures"] == 2
    shop.ok("tasks", "set", "mail", "boom", "--clear", "failures", "--clear", "timeout")
    assert (policy(shop, "boom")["failures"], policy(shop, "boom")["timeout"]) == (1, 60.0)


def test_a_worker_that_declares_again_does_not_undo_an_operator(shop: Shop) -> None:
    shop.ok("tasks", "set", "mail", "boom", "failures=none")
    shop.work()
    assert policy(shop, "boom")["failures"] is None


def test_wrong_settings_are_one_line(shop: Shop) -> None:
    assert "'colour' is not a setting of a task; known are failures," in shop.error(
        "tasks", "set", "mail", "x", "colour=1"
    )
    assert "a limit is a whole number from 1 to 1000000000, or None" in shop.error(
        "tasks", "set", "mail", "boom", "failures=0"
    )
    assert "give SETTING=VALUE or --clear SETTING" in shop.error("tasks", "set", "mail", "boom")


def test_a_task_that_nobody_declared_can_be_set_up_before(shop: Shop) -> None:
    told = shop.run("tasks", "set", "mail", "later", "failures=7")
    assert "no worker has declared a task 'later' in queue 'mail' yet" in told.stderr
    assert policy(shop, "later")["failures"] == 7


def test_declare_settles_what_refuses_a_worker(shop: Shop) -> None:
    edited = Path("shop.py").read_text().replace("timeout=60)", "timeout=90)")
    Path("edited_shop.py").write_text(edited)
    refused = shop.error("declare", "edited_shop:app")
    assert "timeout_ms is 60000 in the store, and 90000 here" in refused
    assert "`holdfast declare MODULE:APP --force` puts those of this code in force" in refused
    assert policy(shop, "boom")["timeout"] == 60.0
    assert "version 0 of mail is declared on sqlite:///jobs.db" in shop.ok(
        "declare", "edited_shop:app", "--queues", "mail", "--force"
    )
    assert policy(shop, "boom")["timeout"] == 90.0
    assert shop.json("declare", "edited_shop:app", "--force")["version"] == 0
    assert "mail" in shop.json("declare", "edited_shop:app")["queues"]


def test_a_slip_in_the_name_of_a_queue_to_declare_is_noted(shop: Shop) -> None:
    told = shop.run("declare", "shop:app", "--queues", "mial")
    assert told.exit_code == 0
    assert told.stderr.startswith("holdfast: --queues mial: this app declares no such queue; it has mail, orders")
    assert shop.run("declare", "shop:app", "--queues", "mail").stderr == ""
