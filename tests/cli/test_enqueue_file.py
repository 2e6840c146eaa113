"""`holdfast enqueue --from`: JSON lines and CSV, wrong lines, repeats, and an interrupt in the middle."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cli_shop import Process, Shop, in_shop
from support import until
from terminal import InTerminal

from holdfast.cli.job import enqueue_file


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop in the current folder, named by HOLDFAST_APP."""
    with in_shop(tmp_path, monkeypatch) as shop:
        yield shop


def payloads(shop: Shop, queue: str = "mail") -> list[Any]:
    """Return what the jobs of a queue take, in the order in which they came."""
    jobs = shop.json("jobs", "--queue", queue, "--limit", "10000")["jobs"]
    shown = [shop.json("jobs", "show", queue, job["id"]) for job in sorted(jobs, key=lambda job: job["run"])]
    return [each["payload"] for each in shown]


def file(shop: Shop, name: str, *lines: str) -> str:
    (shop.folder / name).write_text("".join(f"{line}\n" for line in lines))
    return name


# --- what lines become


def test_lines_of_json_are_calls_with_options_of_their_own(shop: Shop) -> None:
    name = file(
        shop, "a.jsonl",
        '{"to": "ann", "n": 2, "_id": "a", "_delay": "10m", "_priority": 5, "_key": "k", "_tags": ["x", "y"]}', "",
        '["bob", 3]', '{"to": "eve"}',
    )  # fmt: skip
    answer = shop.json("enqueue", "send", "--from", name, "--tag", "all", "--priority", "1")
    assert (answer["lines"], answer["queued"], answer["skipped"]) == (3, 3, 0)
    assert payloads(shop) == [{"to": "ann", "n": 2}, {"to": "bob", "n": 3}, {"to": "eve"}]
    first = shop.json("jobs", "show", "mail", "a")
    assert (first["state"], first["priority"], first["key"], first["tags"]) == ("scheduled", 5, "k", ["x", "y"])
    others = [job for job in shop.json("jobs")["jobs"] if job["id"] != "a"]
    assert [(job["priority"], job["tags"]) for job in others] == [(1, ["all"])] * 2


def test_columns_are_arguments_of_the_types_of_the_signature(shop: Shop) -> None:
    name = file(shop, "a.csv", "to,n,_id,_tags", '"a, b",2,one,"x,y"', "007,,two,", '"two\nlines",3,three,')
    assert shop.ok("enqueue", "send", "--from", name) == "3 queued\n"
    assert payloads(shop) == [{"to": "a, b", "n": 2}, {"to": "007"}, {"to": "two\nlines", "n": 3}]
    assert shop.json("jobs", "show", "mail", "one")["tags"] == ["x", "y"]


def test_models_plain_payloads_tabs_and_stdin_are_taken(shop: Shop) -> None:
    file(shop, "a.txt", "order", '{"sku": "7"}'.replace('"', '""').join('""'))
    assert shop.ok("enqueue", "buy", "--from", "a.txt", "--format", "csv") == "1 queued\n"
    assert payloads(shop, "orders") == [{"order": {"sku": "7"}}]
    done = shop.run("enqueue", "--queue", "plain", "--from", "-", input='{"a": 1, "_id": "x"}\n[1, 2]\n"text"\n')
    assert done.stdout == "3 queued\n"
    assert payloads(shop, "plain") == [{"a": 1}, [1, 2], "text"]
    assert shop.ok("enqueue", "--queue", "tabs", "--from", file(shop, "b.tsv", "a\tb", "1\tx")) == "1 queued\n"
    assert payloads(shop, "tabs") == [{"a": 1, "b": "x"}]


# --- what is wrong with them


def test_wrong_lines_are_told_by_number_and_nothing_is_enqueued(shop: Shop) -> None:
    name = file(
        shop, "a.jsonl", '{"to": "ann"}', "nope", '{"too": "ann"}', '{"to": 5}', '{"to": "ann", "_prio": 1}', "7",
        '{"to": "ann", "_priority": 5000}', '{"to": "ann", "_delay": "soon"}',
    )  # fmt: skip
    done = shop.run("enqueue", "send", "--from", name)
    assert done.exit_code == 2
    assert [line[:80] for line in done.stderr.splitlines()] == [
        line[:80] for line in (
            "line 2: it is not JSON: JSON is malformed: invalid character (byte 4)",
            "line 3: task 'send': send() got an unexpected keyword argument 'too'",
            "line 4: task 'send': payload.to does not fit its annotation: Expected `str`, got `int`",
            "line 5: '_prio' is not an option of a line; known are _id, _delay, _priority, _key, _tags",
            "line 6: it is neither an object of arguments nor an array of them",
            "line 7: priority=5000: a whole number from -1000 to 1000, higher first",
            "line 8: _delay='soon': write seconds (30), or 500ms, 10m, 2h, 1d",
            "holdfast: a.jsonl: 7 of 8 lines are wrong, and nothing was enqueued: mend them, or leave them out with "
            "--skip-bad",
        )
    ]  # fmt: skip
    assert shop.json("jobs")["jobs"] == []
    done = shop.run("enqueue", "send", "--from", "-", input="nope\n")
    assert done.stderr.splitlines()[-1].startswith("holdfast: -: 1 of 1 lines are wrong, and nothing was enqueued")
    deep = '{"to": ' + "[" * 100_000 + "]" * 100_000 + "}"
    done = shop.run("enqueue", "send", "--from", "-", input=f"{deep}\n")
    assert done.stderr.splitlines()[0] == "line 1: it is not JSON: it is nested too deeply"


def test_wrong_lines_are_left_out_when_asked_for(shop: Shop) -> None:
    lines = ['{"to": "ann"}', *["nope"] * 12, '{"to": "bob"}']
    done = shop.run("enqueue", "send", "--from", file(shop, "a.jsonl", *lines), "--skip-bad")
    assert (done.exit_code, done.stdout) == (0, "2 queued, 12 wrong lines skipped\n")
    assert len(done.stderr.splitlines()) == 10
    assert "holdfast: skipped line 2: it is not JSON" in done.stderr
    assert shop.json("enqueue", "send", "--from", "a.jsonl", "--skip-bad")["skipped"] == 12


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        (["to,n", "ann"], "line 2: it has 1 cells, and the first line 2"),
        (["to,n", "ann,x"], "line 2: task 'send': payload.n does not fit its annotation: Expected `int`"),
        (["to,to", "ann,x"], "line 1: the first line names the columns, each once: to, to"),
        (["to", '"ann"x'], "line 2: it is not CSV: ',' expected after '\"'"),
    ],
)
def test_csv_that_is_none_is_told_by_its_line(shop: Shop, lines: list[str], wrong: str) -> None:
    done = shop.run("enqueue", "send", "--from", file(shop, "a.csv", *lines))
    assert done.exit_code == 2
    assert done.stderr.removeprefix("holdfast: ").startswith(wrong)
    assert shop.json("jobs")["jobs"] == []


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_file_that_is_no_text_is_refused(shop: Shop, name: str) -> None:
    (shop.folder / name).write_bytes(b'to\n"\xff\xfe"\n')
    assert shop.run("enqueue", "send", "--from", name).exit_code == 2


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["send", "--from", "nowhere.csv"], "--from='nowhere.csv': No such file or directory"),
        (["send", "--from", "a.txt"], "--from='a.txt': say what is in it, --format jsonl or --format csv"),
        (["send", "to=ann", "--from", "a.csv"], "--from: give the name of the task alone"),
        (["send", "--queue", "mail", "--from", "a.csv"], "--from: give no word beside --queue"),
        (["send", "--from", "a.csv", "--id", "x"], "--id, --args and --wait are for one job, and --from makes many"),
        (["send", "--from", "a.csv", "--wait=5"], "--id, --args and --wait are for one job, and --from makes many"),
        (["send", "to=ann", "--skip-bad"], "--skip-bad is for --from FILE: give it, too"),
        (["send", "to=ann", "--id-prefix", "x"], "--id-prefix is for --from FILE: give it, too"),
        (["sennd", "--from", "a.csv"], "there is no task 'sennd'; known are give_up, send"),
    ],
)
def test_what_does_not_go_together_is_refused(shop: Shop, words: list[str], wrong: str) -> None:
    file(shop, "a.csv", "to")
    file(shop, "a.txt", "to")
    assert shop.error("enqueue", *words).startswith(wrong)


# --- again, and interrupted


def test_a_repeat_with_a_prefix_enqueues_nothing_twice(shop: Shop) -> None:
    name = file(shop, "a.jsonl", '{"to": "ann"}', '{"to": "bob", "_id": "own"}')
    assert shop.ok("enqueue", "send", "--from", name, "--id-prefix", "spring-") == "2 queued\n"
    assert shop.ok("enqueue", "send", "--from", name, "--id-prefix", "spring-") == "2 duplicate\n"
    assert sorted(job["id"] for job in shop.json("jobs")["jobs"]) == ["own", "spring-1"]
    assert shop.ok("enqueue", "send", "--from", name, "--from-line", "2") == "1 duplicate\n"


def test_an_interrupt_tells_how_far_it_came_and_how_to_go_on(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    name = file(shop, "my mails.csv", "to", *(f"customer-{number}" for number in range(9)))
    monkeypatch.setattr(enqueue_file, "ASKED_AT_ONCE", 3)
    app = shop.app
    enqueue_many = app.enqueue_many

    def enqueue_and_interrupt(calls: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return enqueue_many(calls)

    monkeypatch.setattr(app, "enqueue_many", enqueue_and_interrupt)
    done = shop.run("enqueue", "send", "--from", name, "--tag", "x")
    assert done.exit_code == 130
    assert done.stderr == (
        "holdfast: interrupted after line 4: 3 queued; "
        "go on with: holdfast enqueue send --from 'my mails.csv' --tag x --from-line 5\n"
    )
    monkeypatch.setattr(app, "enqueue_many", enqueue_many)
    assert shop.ok("enqueue", "send", "--from", name, "--from-line", "5") == "6 queued\n"
    assert [each["to"] for each in payloads(shop)] == [f"customer-{number}" for number in range(9)]


def test_an_interrupt_between_two_ids_of_a_cancel_names_those_that_are_left(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        shop.ok("enqueue", "send", "to=ann", "--id", f"job-{number}")
    app = shop.app
    cancel = app.cancel

    async def cancel_and_interrupt(queue: str, id: str, *rest: Any) -> Any:
        answer = await cancel(queue, id, *rest)
        os.kill(os.getpid(), signal.SIGINT)
        return answer

    monkeypatch.setattr(app, "cancel", cancel_and_interrupt)
    done = shop.run("cancel", "mail", "job-0", "job-1", "job-2")
    assert done.stdout == "mail/job-0: cancelled\n"
    assert done.stderr == (
        "holdfast: interrupted: 1 of 3 jobs were asked; go on with: holdfast cancel mail job-1 job-2\n"
    )
    assert done.exit_code == 130


def test_an_interrupted_requeue_says_what_it_did(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        shop.ok("enqueue", "boom", "--id", f"job-{number}")
    shop.work()
    store = shop.app.store
    requeue = store.requeue

    async def requeue_and_interrupt(which: Any, **options: Any) -> Any:
        answer = await requeue(which, **options)
        if not options.get("dry_run"):
            os.kill(os.getpid(), signal.SIGINT)
        return answer

    monkeypatch.setattr(store, "requeue", requeue_and_interrupt)
    monkeypatch.setattr("holdfast.cli.job.actions.CHUNK", 1)
    done = shop.run("requeue", "--queue", "mail", "--yes")
    assert done.exit_code == 130
    assert done.stderr == (
        "holdfast: interrupted: requeued 1 job, 2 are left; go on with: holdfast requeue --queue mail --yes\n"
    )


def test_a_terminal_shows_how_far_it_is(shop: Shop) -> None:
    name = file(shop, "a.jsonl", *(json.dumps({"to": f"c-{number}"}) for number in range(3000)))
    words = ("enqueue", "send", "--from", name)
    with closing(InTerminal(*words, cwd=shop.folder, HOLDFAST_APP="shop:app")) as terminal:
        assert terminal.end() == 0
        assert " of 3,000, " in terminal.raw
        assert "/s" in terminal.raw
        assert terminal.screen.text.strip().endswith("3,000 queued")


def test_a_stream_is_interrupted_between_two_chunks(shop: Shop) -> None:
    os.mkfifo(shop.folder / "pipe.jsonl")
    with closing(Process(shop.folder, "enqueue", "send", "--from", "pipe.jsonl", "--skip-bad")) as process:
        with (shop.folder / "pipe.jsonl").open("w") as pipe:
            for number in range(600):
                pipe.write(json.dumps({"to": f"c-{number}"}) + "\n")
            pipe.flush()
            until(lambda: len(shop.json("jobs", "--limit", "1000")["jobs"]) == 500, "the first chunk is there")
            process.signal(signal.SIGINT)
            until(lambda: "stopping after this step" in process.errors.read_text(), "it was heard")
        code, _, err = process.end()
    assert code == 130
    assert err.splitlines()[-1] == (
        "holdfast: interrupted after line 500: 500 queued; "
        "go on with: holdfast enqueue send --from pipe.jsonl --skip-bad --from-line 501"
    )
    assert len(shop.json("jobs", "--limit", "1000")["jobs"]) == 500
