"""`holdfast schedules`: list, show, add, set, pause, resume, trigger, remove."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_shop import Shop, in_shop

DECLARED = """
from holdfast import Cron
app.schedule("nightly", Cron("0 3 * * *", tz="Europe/Berlin"), send.args("ann", n=2), overlap="skip")
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop in the current folder that declares a schedule, and whose worker has been there once."""
    with in_shop(tmp_path, monkeypatch) as shop:
        with (tmp_path / "shop.py").open("a") as file:
            file.write(DECLARED)
        shop.work()
        yield shop


def test_schedules_are_listed_with_what_they_do(shop: Shop) -> None:
    (found,) = shop.json("schedules")["schedules"]
    assert found["next_at"].endswith((":00:00.000Z",))
    del found["next_at"]
    assert found == {
        "queue": "mail", "name": "nightly", "task": "send", "payload": {"to": "ann", "n": 2}, "priority": 0,
        "spec": {"type": "cron", "text": "0 3 * * *", "tz": "Europe/Berlin"}, "key": None, "catch_up": "one",
        "limit": 100, "grace_ms": 60000, "overlap": "skip", "paused": False, "last_at": None, "fired": 0,
        "declared": True, "version": 0, "changed": [],
    }  # fmt: skip
    table = shop.ok("schedules", "list", "--queue", "mail")
    assert "nightly   mail   send  0 3 * * * Europe/Berlin" in table
    assert shop.json("schedules", "list", "--queue", "orders") == {"schedules": []}


def test_one_is_shown_with_its_next_five_ticks(shop: Shop) -> None:
    shown = shop.json("schedules", "show", "nightly")
    assert len(shown["ticks"]) == 5
    assert shown["ticks"][0] == shown["next_at"]
    assert shop.ok("schedules", "show", "nightly").count("\ntick ") == 5


def test_one_is_added_changed_and_removed(shop: Shop) -> None:
    added = shop.json(
        "schedules", "add", "pulse", "send", "to=eve", "--every", "10m", "--catch-up", "all", "--limit", "5"
    )
    assert (added["spec"], added["payload"]) == ({"type": "every", "seconds": 600.0, "anchor": 0.0}, {"to": "eve"})
    assert (added["catch_up"], added["limit"], added["declared"]) == ("all", 5, False)
    changed = shop.json("schedules", "set", "pulse", "send", '{"to": "bob"}', "--cron", "30 4 * * *", "--grace", "2m")
    assert (changed["payload"], changed["grace_ms"], changed["when"]) == ({"to": "bob"}, 120_000, "30 4 * * * UTC")
    assert shop.ok("schedules", "remove", "pulse") == "pulse: removed\n"
    assert "there is no schedule 'pulse'" in shop.error("schedules", "show", "pulse", code=1)


def test_cron_s_own_names_are_taken_and_shown_as_written(shop: Shop) -> None:
    added = shop.json("schedules", "add", "pulse", "send", "to=eve", "--cron", "@every 5m")
    assert (added["spec"], added["when"]) == ({"type": "cron", "text": "@every 5m", "tz": "UTC"}, "@every 5m")
    assert (
        shop.json("schedules", "set", "pulse", "--cron", "@daily", "--tz", "Asia/Tokyo")["when"] == "@daily Asia/Tokyo"
    )
    assert "known are @yearly" in shop.error("schedules", "set", "pulse", "--cron", "@reboot")


def test_what_code_declares_is_changed_above_it_and_cleared(shop: Shop) -> None:
    changed = shop.json("schedules", "set", "nightly", "--every", "1h")
    assert (changed["changed"], changed["when"]) == (["spec"], "every 3600 s")
    assert "every 3600 s*" in shop.ok("schedules")
    shop.work()
    assert shop.json("schedules", "show", "nightly")["when"] == "every 3600 s"
    cleared = shop.json("schedules", "set", "nightly", "--clear", "spec")
    assert (cleared["changed"], cleared["when"]) == ([], "0 3 * * * Europe/Berlin")


def test_one_that_code_declares_comes_back_when_it_was_removed(shop: Shop) -> None:
    assert "the next worker brings it back" in shop.ok("schedules", "remove", "nightly")
    assert shop.json("schedules") == {"schedules": []}
    shop.work()
    assert [each["name"] for each in shop.json("schedules")["schedules"]] == ["nightly"]


def test_one_is_paused_and_resumed(shop: Shop) -> None:
    assert shop.ok("schedules", "pause", "nightly") == "nightly: paused\n"
    assert "paused" in shop.ok("schedules")
    shop.work()
    assert shop.json("schedules", "show", "nightly")["paused"] is True
    resumed = shop.json("schedules", "resume", "nightly")
    assert (resumed["paused"], resumed["name"]) == (False, "nightly")
    assert resumed["next_at"] is not None


def test_one_is_triggered_now(shop: Shop) -> None:
    answer = shop.json("schedules", "trigger", "nightly")
    assert (answer["status"], answer["queue"]) == ("queued", "mail")
    assert shop.ok("schedules", "trigger", "nightly").startswith("duplicate: mail/nightly/")
    shop.work()
    job = shop.json("jobs", "show", "mail", answer["id"])
    assert (job["result"], job["headers"]) == ("2 to ann", {"holdfast-schedule": "nightly"})


def test_a_plain_payload_needs_no_app(shop: Shop, tmp_path: Path) -> None:
    words = ("--queue", "raw", "--at", "2099-01-01T00:00:00Z", "a=1", "--url", f"sqlite:///{tmp_path}/other.db")
    added = shop.json("schedules", "add", "once", *words)
    assert (added["task"], added["payload"], added["ticks"]) == (None, {"a": 1}, ["2099-01-01T00:00:00.000Z"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("add", "x", "send", "to=a"), "schedules add x: when? Give --cron, --every or --at"),
        (("add", "x", "send", "to=a", "--cron", "* * * * *", "--every", "5"), "--cron and --every exclude each other"),
        (("add", "x", "send", "to=a", "--every", "5", "--tz", "UTC"), "--tz is the time zone of --cron"),
        (("add", "x", "send", "to=a", "--cron", "61 * * * *"), "its minute is wrong: '61'"),
        (("add", "x", "send", "to=a", "--cron", "* * * * *", "--tz", "Mars"), "there is no such time zone here"),
        (("add", "x", "send", "to=a", "--at", "tomorrow"), "write ISO 8601 with a zone"),
        (
            ("add", "x", "send", "to=a", "--at", "2099-01-01T00:00"),
            "--at='2099-01-01T00:00' has no time zone: write 2099-01-01T00:00:00Z for UTC, or +02:00 at its end",
        ),
        (("add", "x", "nothing", "--every", "5"), "there is no task 'nothing'"),
        (("add", "x", "send", "to=a", "--every", "5", "--queue", "raw"), "task 'send' is in queue 'mail'"),
        (("set", "nightly"), "schedules set nightly: give what is to change"),
        (("set", "nightly", "--clear", "colour"), "'colour' is nothing that a schedule has"),
        (("set", "nightly", "to=bob"), "there is no task 'to=bob'"),
        (("set", "nightly", "--args", "[1]", "--every", "5"), "--args are the arguments of a task"),
    ],
)
def test_what_is_asked_for_wrongly_is_one_line(shop: Shop, words: tuple[str, ...], told: str) -> None:
    assert told in shop.error("schedules", *words)


@pytest.mark.parametrize("command", ["show", "pause", "resume", "trigger", "remove"])
def test_one_that_is_not_there_ends_as_a_job_that_is_not_there(shop: Shop, command: str) -> None:
    assert "there is no schedule 'nope'" in shop.error("schedules", command, "nope", code=1)
