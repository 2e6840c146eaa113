"""The command line on jobs and queues: enqueue, look, steer, and what the doctor says."""

from __future__ import annotations

import asyncio
import getpass
import json
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_shop import Shop, in_shop
from support import PATIENCE

from holdfast import Handle, Holdfast
from holdfast.app.settings import LIVE_QUEUE_SETTINGS
from holdfast.store.contract import Session


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop in the current folder, named by HOLDFAST_APP."""
    with in_shop(tmp_path, monkeypatch) as shop:
        yield shop


def opened(shop: Shop, work: Callable[[Holdfast], Awaitable[Any]]) -> Any:
    """Return what the work returns, with the app open."""

    async def main() -> Any:
        async with shop.app as app:
            return await work(app)

    return asyncio.run(main())


def payload(shop: Shop, id: str, queue: str = "mail") -> Any:
    return shop.json("jobs", "show", queue, id)["payload"]


# --- enqueue


def test_tags_are_given_again_and_shown(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann", "--id", "a", "--tag", "vip", "--tag", "a b", "--tag", "vip")
    shop.ok("enqueue", "send", "to=bob", "--id", "b")
    assert shop.json("jobs", "show", "mail", "a")["tags"] == ["vip", "a b"]
    assert '["vip","a b"]' in shop.ok("jobs", "show", "mail", "a")
    assert [job["tags"] for job in shop.json("jobs", "--id", "a", "--id", "b")["jobs"]] == [["vip", "a b"], []]
    assert [job["id"] for job in shop.json("jobs", "--tag", "vip", "--id", "a", "--id", "b")["jobs"]] == ["a"]
    assert [job["id"] for job in shop.json("jobs", "list", "--tag", "vip")["jobs"]] == ["a"]


def test_enqueue_prints_status_id_and_run(shop: Shop) -> None:
    assert shop.ok("enqueue", "send", "to=ann", "--id", "a") == "queued: mail/a run 1 (waiting)\n"
    assert shop.ok("enqueue", "send", "to=bob", "--id", "a") == "duplicate: mail/a run 1 (waiting)\n"
    assert shop.json("enqueue", "send", "to=bob", "--id", "a", "--on-conflict", "update") == {
        "status": "updated", "queue": "mail", "id": "a", "run": 1, "state": "waiting",
    }  # fmt: skip
    assert payload(shop, "a") == {"to": "bob"}


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        (["to=ann", "n=3"], {"to": "ann", "n": 3}),
        (["to=5"], {"to": "5"}),
        (["to=a=b"], {"to": "a=b"}),
        (['{"to": "ann", "n": 2}'], {"to": "ann", "n": 2}),
        (['{"to": "ann"}', "n=2"], {"to": "ann", "n": 2}),
        (["--args", '["ann", 2]'], {"to": "ann", "n": 2}),
        (["--args", '["ann"]', "n=2"], {"to": "ann", "n": 2}),
    ],
)
def test_arguments_are_words_json_or_an_array(shop: Shop, words: list[str], sent: dict[str, Any]) -> None:
    shop.ok("enqueue", "send", *words, "--id", "a")
    assert payload(shop, "a") == sent


def test_arguments_become_what_the_annotations_say(shop: Shop) -> None:
    shop.ok("enqueue", "buy", 'order={"sku": "7", "count": 2}', "--id", "a")
    shop.work()
    shown = shop.json("jobs", "show", "orders", "a")
    assert shown["result"] == {"sku": "7", "count": 2}
    assert shown["priority"] == 3


def test_options_of_a_job(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann", "--id", "a", "--delay", "2h", "--priority", "7", "--key", "tenant")
    shown = shop.json("jobs", "show", "mail", "a")
    assert (shown["state"], shown["priority"], shown["key"]) == ("scheduled", 7, "tenant")


def test_a_plain_payload_needs_no_app(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_APP")
    url = ("--url", "sqlite:///plain.db")
    shop.ok("enqueue", *url, "--queue", "q", "to=ann", "n=3", "--id", "a")
    shop.ok("enqueue", *url, "--queue", "q", "[1, 2]", "--id", "b")
    shop.ok("enqueue", *url, "--queue", "q", "--id", "c")
    sent = {id: shop.json("jobs", "show", "q", id, *url)["payload"] for id in "abc"}
    assert sent == {"a": {"to": "ann", "n": 3}, "b": [1, 2], "c": {}}
    assert shop.error("enqueue", *url, "send", "to=ann") == (
        "'send': a task is known by its app: give --app module:app, or --queue NAME for a payload"
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nope"], "there is no task 'nope'; known are give_up, send, buy, boom, until_go, until_told"),
        ([], "which task? Known are give_up, send"),
        (["send"], "task 'send': send() missing 1 required positional argument: 'to'"),
        (["send", "to=a", "cc=b"], "task 'send': send() got an unexpected keyword argument 'cc'"),
        (["send", "to=a", "n=many"], "task 'send': payload.n does not fit its annotation: Expected `int`, got `str`"),
        (["send", "ann"], "'ann' is not name=value"),
        (["send", "to=a", "to=b"], "'to' is given twice"),
        (["send", "{to}"], "the arguments: '{to}' is not JSON ("),
        (["send", "--args", "5"], "--args='5': a JSON array"),
        (["send", "--args", "["], "--args: '[' is not JSON ("),
        (["--queue", "q", "--args", "[]"], "--args are a task's positional arguments"),
        (["--queue", "q", "nope"], "the payload: 'nope' is not JSON ("),
        (["send", "to=a", "--delay", "soon"], "--delay='soon': write seconds (30), or 500ms, 10m, 2h, 1d"),
        (["send", "--wait", "to=a"], "--wait='to=a': write seconds (30), or 500ms, 10m, 2h, 1d; put --wait last"),
        (["send", "to=a", "--priority", "5000"], "priority=5000: a whole number from -1000 to 1000"),
    ],
)
def test_a_job_that_cannot_be_right_is_refused_in_one_line(shop: Shop, words: list[str], told: str) -> None:
    assert shop.error("enqueue", *words).startswith(told)
    assert shop.json("jobs")["jobs"] == []


def test_waiting_prints_the_result(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann", "--id", "a")
    shop.work()
    told = shop.ok("enqueue", "send", "to=ann", "--id", "a", "--wait")
    assert told.splitlines() == ["completed: mail/a run 1 (completed)", '"1 to ann"']
    assert shop.json("enqueue", "send", "to=ann", "--id", "a", "--wait=1")["result"] == "1 to ann"


def test_waiting_for_a_job_that_gives_no_result(shop: Shop) -> None:
    assert shop.error("enqueue", "send", "to=ann", "--id", "a", "--wait", "1ms", code=1) == (
        "mail/a gave no result within 0.001 s; it goes on, ask again later"
    )
    shop.ok("enqueue", "boom", "what=fly", "--id", "b")
    shop.work()
    told = shop.error("enqueue", "boom", "what=fly", "--id", "b", "--wait", code=1)
    assert told == "mail/b failed: ValueError: cannot fly"


def test_who_ends_the_wait_is_told_which_job_goes_on(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    async def waits(*args: object, **options: object) -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(PATIENCE)

    monkeypatch.setattr(Handle, "result", waits)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background job ignores
    try:
        ended = shop.run("enqueue", "send", "to=ann", "--id", "a", "--wait")
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.exit_code == 130
    assert ended.stderr.split("\n\n") == [
        "holdfast: mail/a run 1 is enqueued, and goes on", "holdfast: interrupted\n",
    ]  # fmt: skip


# --- jobs


def test_jobs_are_listed_newest_first_and_filtered(shop: Shop) -> None:
    for number in range(3):
        shop.ok("enqueue", "send", "to=ann", "--id", f"a{number}", "--key", f"k{number}")
    shop.ok("enqueue", "buy", 'order={"sku": "7"}', "--id", "b")
    ids = lambda *words: [job["id"] for job in shop.json("jobs", *words)["jobs"]]  # noqa: E731
    assert ids() == ["b", "a2", "a1", "a0"]
    assert ids("--queue", "orders") == ["b"]
    assert ids("--task", "send", "--key", "k1") == ["a1"]
    assert ids("--state", "failed") == []
    first = shop.json("jobs", "list", "--limit", "3")
    assert [job["id"] for job in shop.json("jobs", "--cursor", first["cursor"])["jobs"]] == ["a0"]
    assert f"--cursor {first['cursor']}" in shop.run("jobs", "--limit", "3").stderr


def test_a_listed_job_has_stable_keys(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann", "--id", "a")
    (job,) = shop.json("jobs")["jobs"]
    assert list(job) == [
        "queue", "id", "run", "task", "state", "failing", "priority", "key", "tags", "run_at", "enqueued_at",
        "started_at",
        "finished_at", "expires_at", "counters", "worker", "progress", "error", "holds_id", "cancel_requested",
        "successor", "chain", "position", "chain_state", "blockers", "snoozes", "company",
    ]  # fmt: skip
    assert job["enqueued_at"].endswith("Z")
    assert job["started_at"] is None


def test_a_failed_job_shows_its_error_and_its_timeline(shop: Shop) -> None:
    shop.ok("enqueue", "boom", "what=fly", "--id", "a")
    shop.work()
    shown = shop.json("jobs", "show", "mail", "a")
    assert shown["error"]["type"] == "ValueError"
    assert "raise ValueError" in shown["error"]["traceback"]
    assert shown["progress"] == {"fraction": 0.5, "message": "half"}
    assert [each["transition"] for each in shown["timeline"]] == ["enqueue", "claim", "progress", "fail"]
    told = shop.ok("jobs", "show", "mail", "a")
    for part in ("ValueError: cannot fly (failure)", "raise ValueError", "50% half", '{"what":"fly"}', "1 failures"):
        assert part in told


def test_one_run_of_a_job_is_shown(shop: Shop) -> None:
    shop.ok("enqueue", "boom", "--id", "a")
    shop.work()
    shop.ok("requeue", "a")
    assert shop.json("jobs", "show", "mail", "a")["state"] == "waiting"
    assert shop.json("jobs", "show", "mail", "a", "--run", "1")["state"] == "failed"
    assert shop.error("jobs", "show", "mail", "a", "--run", "99", code=1) == (
        "there is no job mail/a run 99, or it has expired; `holdfast jobs` lists those there are"
    )


def test_a_payload_that_is_no_json_is_shown_all_the_same(shop: Shop) -> None:
    opened(shop, lambda app: app.queue("q", codec="msgpack").enqueue({"a": b"\xff"}, job_id="a"))
    assert list(shop.json("jobs", "show", "q", "a")["payload"]) == ["base64"]


# --- steering


def test_cancel_says_what_it_did_with_each(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann", "--id", "a")
    shop.ok("enqueue", "send", "to=ann", "--id", "b")
    shop.work()
    shop.ok("enqueue", "send", "to=ann", "--id", "c")
    assert shop.ok("cancel", "mail", "c") == "mail/c: cancelled\n"
    result = shop.run("cancel", "mail", "a", "nope")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "mail/a: not cancelled: it is completed already",
        "mail/nope: not cancelled: there is no such job, or it has expired",
    ]
    answers = json.loads(shop.run("cancel", "mail", "nope", "--json").stdout)
    assert (answers[0]["id"], answers[0]["reply"]) == ("nope", "missing")
    assert (
        shop.run("cancel", "mail", "a", "--running", "kill").stdout
        == "mail/a: not cancelled: it is completed already\n"
    )


async def hold(app: Holdfast, queue: str, *, lease_ms: int = 60_000) -> None:
    """One job of the queue is active, under a worker that does nothing."""
    session = Session(id="w1", name="w1", host="h", pid=1, queues=(queue,), lease_ms=lease_ms)
    await app.store.register(session)
    turn = await app.store.settle_and_claim(session, [], [queue], 1)
    assert len(turn.claimed) == 1


def test_a_running_job_is_left_or_signalled(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann", "--id", "a")
    opened(shop, lambda app: hold(app, "mail"))
    refused = shop.run("cancel", "mail", "a")
    assert (refused.exit_code, refused.stdout) == (
        1, "mail/a: not cancelled: it runs; --running signal tells its handler to stop\n"
    )  # fmt: skip
    shop.ok("enqueue", "send", "to=bob", "--id", "a", "--on-conflict", "update")
    left = shop.run("cancel", "mail", "a")
    assert (left.exit_code, left.stdout.strip()) == (1, refused.stdout.strip() + "; its successor is cancelled")
    assert shop.ok("cancel", "mail", "a", "--running", "signal") == "mail/a: its handler is told to stop\n"
    assert "its handler has been told to stop" in shop.ok("jobs", "show", "mail", "a")


def test_promote_and_delete(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann", "--id", "a", "--delay", "1h")
    assert shop.ok("promote", "mail", "a") == "mail/a: promoted\n"
    assert shop.error("promote", "mail", "a", code=1) == (
        "mail/a is not promoted: only a scheduled job waits for its time"
    )
    assert shop.json("delete", "mail", "a") == {"queue": "mail", "id": "a", "reply": "ok"}
    assert shop.error("delete", "mail", "a", code=1) == (
        "there is no job mail/a, or it has expired; `holdfast jobs` lists those there are"
    )


def failures(shop: Shop, count: int) -> None:
    """So many jobs have failed."""

    async def enqueue(app: Holdfast) -> None:
        boom = app.registry.tasks["boom"]
        await boom.enqueue_many(boom.options(job_id=f"f{number}").args() for number in range(count))

    opened(shop, enqueue)
    shop.work()


def test_requeue_by_id(shop: Shop) -> None:
    failures(shop, 2)
    assert shop.ok("requeue", "f0").splitlines()[-1] == "requeued 1 job"
    result = shop.run("requeue", "f1", "nope", "--json")
    assert [job["id"] for job in json.loads(result.stdout)["jobs"]] == ["f1"]
    assert result.exit_code == 1
    assert result.stderr.startswith("holdfast: not requeued: nope (not there, not finished, or its id is in use")


@pytest.mark.parametrize("command", ["requeue", "jobs"])
def test_an_empty_prefix_is_refused_as_it_would_choose_every_job(shop: Shop, command: str) -> None:
    assert shop.error(command, "--id-prefix", "") == (
        "--id-prefix is empty, and every id begins so: say how they begin, or leave it out"
    )


def test_requeue_of_many_is_asked_about_first(shop: Shop) -> None:
    failures(shop, 3)
    assert shop.error("requeue", "--queue", "mail") == (
        "this would requeue 3 jobs: add --yes to do it, or --dry-run to see which"
    )
    dry = shop.json("requeue", "--queue", "mail", "--dry-run")
    assert (dry["dry_run"], [job["id"] for job in dry["jobs"]]) == (True, ["f0", "f1", "f2"])
    assert shop.json("queues")["queues"][0]["counts"]["waiting"] == 0
    assert shop.ok("requeue", "--task", "boom", "--yes") == "requeued 3 jobs\n"
    assert shop.ok("requeue", "--yes") == "requeued 0 jobs\n"


def test_requeue_of_more_than_one_chunk_and_a_limit(shop: Shop) -> None:
    failures(shop, 450)
    assert shop.ok("requeue", "--limit", "420", "--yes") == "requeued 420 jobs; --limit raises the number\n"
    assert shop.ok("requeue", "--yes") == "requeued 30 jobs\n"
    assert shop.json("queues")["queues"][0]["counts"]["waiting"] == 450


@pytest.mark.parametrize("words", [["jobs"], ["chains"], ["requeue", "--yes"]], ids=" ".join)
def test_a_limit_that_no_store_can_count_to_is_one_line(shop: Shop, words: list[str]) -> None:
    told = shop.error(*words, "--limit", str(10**22))
    assert "1000000000" in told
    assert "unexpected" not in told


# --- queues


def test_queues_show_counts_and_age(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann")
    shop.ok("enqueue", "send", "to=ann", "--delay", "1h")
    (queue,) = shop.json("queues")["queues"]
    assert (queue["name"], queue["counts"]["waiting"], queue["counts"]["scheduled"]) == ("mail", 1, 1)
    assert queue["oldest_waiting_age_ms"] >= 0
    assert shop.ok("queues").splitlines()[1].split()[:3] == ["mail", "1", "1"]


def test_settings_of_a_queue_are_set_and_cleared(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann")
    words = ("concurrency=5", "rate=100/s", "key_rate=5/10s,burst=2", "key_concurrency=2", "priority=3")
    set_ = shop.json("queues", "set", "mail", *words, "result_ttl=1h", 'retention={"failed_count": 9}', "paused=false")
    settings = set_["settings"]
    assert (settings["concurrency"], settings["key_concurrency"], settings["priority"]) == (5, 2, 3)
    assert settings["rate"] == {"count": 100, "per": 1, "burst": None}
    assert settings["key_rate"] == {"count": 5, "per": 10, "burst": 2}
    assert (settings["result_ttl_ms"], settings["retention"]["failed_count"]) == (3_600_000, 9)
    told = shop.ok("queues")
    assert "concurrency=5* key_concurrency=2* rate=100/1s* key_rate=5/10s,burst=2*" in told
    cleared = shop.json("queues", "set", "mail", "rate=none", "--clear", "concurrency", "--clear", "result_ttl")
    assert (cleared["settings"]["rate"], cleared["settings"]["concurrency"]) == (None, None)
    (queue,) = shop.json("queues")["queues"]
    assert "concurrency" not in queue["overrides"]
    assert queue["overrides"]["rate"] is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["speed=5"], "'speed' is not a setting of a queue; known are paused, priority, concurrency"),
        (["--clear", "speed"], "'speed' is not a setting of a queue; known are paused"),
        (["concurrency=0"], "queue setting: concurrency=0: a whole number from 1 to 1000000000, or None for no limit"),
        (["rate=fast"], "rate='fast': write 100/s, 5/10s or 1000/h,burst=50, or none for no limit"),
        (["rate=0/s"], "Rate(0.0, per=1.0): both are numbers above 0"),
        (["result_ttl=x"], "result_ttl='x': write seconds (30), or 500ms, 10m, 2h, 1d"),
        (["paused=maybe"], "queue setting: Expected `bool`, got `str` - at `$.paused`"),
        (["paused"], "'paused' is not name=value"),
        ([], "queues set mail: give SETTING=VALUE or --clear SETTING"),
    ],
)
def test_a_setting_that_cannot_be_right_is_one_line(shop: Shop, words: list[str], told: str) -> None:
    assert shop.error("queues", "set", "mail", *words).startswith(told)


def test_the_settings_that_are_known_are_those_that_can_be_set(shop: Shop) -> None:
    told = shop.error("queues", "set", "mail", "speed=5")
    assert told.partition("known are ")[2].split(", ") == list(LIVE_QUEUE_SETTINGS)


def test_a_key_has_a_limit_of_its_own(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann")
    assert shop.ok("queues", "limit-key", "mail", "t7", "2") == "mail: t7 runs 2 at once\n"
    assert shop.json("queues")["queues"][0]["key_overrides"] == {"t7": 2}
    assert shop.ok("queues", "limit-key", "mail", "t7", "none") == "mail: t7 follows the queue\n"
    assert shop.json("queues")["queues"][0]["key_overrides"] == {}
    assert shop.error("queues", "limit-key", "mail", "t7", "some") == "'some': a whole number from 1, or none"
    assert (
        shop.error("queues", "limit-key", "mail", "t7", "0")
        == "concurrency=0: a whole number from 1 to 1000000000, or None"
    )


def test_pause_and_resume(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann", "--id", "a")
    assert shop.ok("pause", "mail") == "mail: paused\n"
    assert "paused*" in shop.ok("queues")
    shop.work()
    assert shop.json("jobs", "show", "mail", "a")["state"] == "waiting"
    assert shop.json("resume", "mail") == {"name": "mail", "paused": False}
    shop.work()
    assert shop.json("jobs", "show", "mail", "a")["state"] == "completed"


def test_a_slip_in_the_name_of_a_queue_is_noted(shop: Shop) -> None:
    assert shop.run("pause", "mial").stderr == "holdfast: the store knew no queue 'mial' until now\n"
    assert shop.run("pause", "mial").stderr == ""


# --- workers, events, doctor


def test_workers_are_listed_and_those_that_are_gone_do_not_serve(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann")
    opened(shop, lambda app: hold(app, "mail"))
    (worker,) = shop.json("workers")["workers"]
    assert (worker["name"], worker["alive"], worker["active"], worker["queues"]) == ("w1", True, 1, ["mail"])
    assert shop.json("queues")["queues"][0]["workers"] == 1
    opened(
        shop,
        lambda app: app.store.register(Session(id="w1", name="w1", host="h", pid=1, queues=("mail",), lease_ms=0)),
    )
    assert "gone" in shop.ok("workers")
    assert shop.json("queues")["queues"][0]["workers"] == 0


def test_workers_are_told_to_stop_by_name_with_who_did_it(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann")
    opened(shop, lambda app: hold(app, "mail"))
    assert shop.ok("workers", "stop", "w1", "--as", "ann") == "w1: told, within a heartbeat: w1\n"
    assert shop.json("workers")["workers"][0]["command"] == "drain"
    assert "draining" in shop.ok("workers", "list")
    assert shop.json("workers", "stop", "w1", "--now") == {"w1": ["w1"]}
    failed = shop.run("workers", "stop", "nobody")
    assert (failed.exit_code, failed.stdout) == (1, "nobody: nobody is told\n")
    assert "no worker that is alive is named nobody" in failed.stderr
    told = [json.loads(line) for line in shop.ok("events", "--json").splitlines()][-2:]
    assert [(each["transition"], each["cause"], each["message"]) for each in told] == [
        ("operate", "command", '{"command":"drain"}'),
        ("operate", "command", '{"command":"stop"}'),
    ]
    assert [each["actor"] for each in told] == ["ann", f"cli:{getpass.getuser()}"]
    line = shop.ok("events").splitlines()[-2]
    assert line.endswith('operate   -         mail cause=command worker=w1 by=ann {"command":"drain"}')


def test_what_changes_something_says_who_did_it(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann", "--id", "a", "--delay", "60")
    shop.ok("pause", "mail", "--as", "ann")
    shop.ok("cancel", "mail", "a", "--as", "bob")
    told = [json.loads(line) for line in shop.ok("events", "--json").splitlines()]
    assert [(each["transition"], each["actor"]) for each in told] == [
        ("enqueue", None), ("operate", "ann"), ("cancel", "bob"),
    ]  # fmt: skip
    assert "bob" in shop.ok("jobs", "show", "mail", "a")
    assert "the name of who acts" in shop.run("pause", "mail", "--as", "").stderr


def test_events_are_lines_and_can_be_read_on(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann", "--id", "a")
    shop.ok("enqueue", "buy", 'order={"sku": "7"}', "--id", "b")
    shop.work()
    lines = [json.loads(line) for line in shop.ok("events", "--json").splitlines()]
    assert [line["transition"] for line in lines[:2]] == ["enqueue", "enqueue"]
    assert len(lines) == 6
    rest = shop.ok("events", "--json", "--after", lines[1]["position"]).splitlines()
    assert len(rest) == 4
    assert len(shop.ok("events", "--queue", "orders").splitlines()) == 3
    assert len(shop.ok("events", "--limit", "2").splitlines()) == 2
    assert shop.ok("events", "--after", "end") == ""
    assert "complete  completed mail/a#1 task=send attempt=1" in shop.ok("events")
    assert shop.error("events", "--after", "x") == "position 'x' is not one that the event log gave"
    told = shop.run("events", "--after", "another:3", "--limit", "1").stderr
    assert told.startswith("holdfast: the log is another one than the position was made for")


def test_a_healthy_store_passes_the_doctor(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann")
    shop.work()
    checks = {check["name"]: check["ok"] for check in shop.json("doctor")}
    assert {"python", "store", "store: integrity", "clock", "workers", "stuck jobs"} <= set(checks)
    assert all(checks.values())
    assert "problem" not in shop.ok("doctor")


def test_the_doctor_finds_jobs_that_nobody_serves_and_jobs_that_are_stuck(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann", "--id", "a")
    shop.ok("enqueue", "buy", 'order={"sku": "7"}')
    opened(shop, lambda app: hold(app, "mail", lease_ms=0))
    result = shop.run("doctor")
    assert result.exit_code == 1
    assert "1 held by workers that are gone, such as mail/a" in result.stdout
    assert "run a worker for mail, or holdfast upkeep: it takes them back within seconds" in result.stdout
    assert "1 jobs wait, and no worker serves it" in result.stdout
    assert "holdfast worker --queues orders" in result.stdout  # the environment names the app
    assert "holdfast worker shop.py:app --queues orders" in shop.run("doctor", "--app", "shop.py:app").stdout
    assert "holdfast worker module:app --queues orders" in shop.run("doctor", "--url", "sqlite:///jobs.db").stdout


def test_the_doctor_says_what_is_wrong_with_a_file(shop: Shop) -> None:
    (shop.folder / "jobs.db").write_text("this is not a database, however long you look at it " * 20)
    result = shop.run("doctor", "--json")
    assert result.exit_code == 1
    (store,) = [check for check in json.loads(result.stdout) if check["name"] == "store"]
    assert store["ok"] is False
    assert "damaged or not a SQLite file" in store["detail"]


def test_the_doctor_looks_at_what_there_is_without_a_store(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_APP")
    told = shop.ok("doctor")
    assert "Python 3." in told
    assert "not checked" in told
