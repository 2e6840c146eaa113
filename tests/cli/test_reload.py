"""`holdfast worker --reload`: code that changes, jobs in the middle of it, mistakes, and the end."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from cli_shop import Process, Shop, in_shop
from support import eventually, run, until

from holdfast.cli.worker.watch import CodeFiles, changes, polled

Start = Callable[..., Process]
NO_WATCHFILES = "raise ImportError('not here')\n"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop in the current folder, named by HOLDFAST_APP."""
    with in_shop(tmp_path, monkeypatch) as shop:
        yield shop


@pytest.fixture
def start(shop: Shop) -> Iterator[Start]:
    """Starts a worker that reloads, which does not outlive the test."""
    with ExitStack() as stack:
        yield lambda *words: stack.enter_context(closing(Process(shop.folder, "worker", "--reload", *words)))


@pytest.fixture(params=["notices", "polling"])
def way(request: pytest.FixtureRequest, shop: Shop) -> str:
    """How changes are noticed: where watchfiles cannot be imported, by looking."""
    if request.param == "polling":
        (shop.folder / "watchfiles.py").write_text(NO_WATCHFILES)
    return str(request.param)


def change(shop: Shop, old: str, new: str) -> None:
    """Write the app's file anew, in one step, as editors do."""
    text = (shop.folder / "shop.py").read_text()
    assert old in text
    other = shop.folder / "shop.new"
    other.write_text(text.replace(old, new))
    other.rename(shop.folder / "shop.py")


def told(process: Process, part: str) -> str:
    """Return the line of stderr with this in it, once it is there."""
    find = re.compile(f".*{re.escape(part)}.*")
    found = until(lambda: find.search(process.errors.read_text()), part)
    assert isinstance(found, re.Match)
    return found[0]


def test_a_change_starts_the_worker_again_with_the_new_code(shop: Shop, start: Start, way: str) -> None:
    process = start()
    process.line("serves mail")
    how = "by the system's notices" if way == "notices" else "by looking twice a second"
    assert told(process, "watching") == f"holdfast: watching {shop.folder} for changes of *.py, {how}"
    assert shop.json("enqueue", "send", "to=ann", "--wait=20")["result"] == "1 to ann"
    change(shop, '"{n} to {to}"', '"{to} gets {n}"')
    process.line("stopped")
    process.line("serves mail")
    assert told(process, "changed:") == "holdfast: changed: shop.py; starting the worker again"
    assert shop.json("enqueue", "send", "to=ann", "--wait=20")["result"] == "ann gets 1"
    process.signal(signal.SIGINT)
    code, _, err = process.end()
    assert (code, "change detected" in err) == (0, False), err


def test_a_job_in_the_middle_is_handed_back_and_costs_no_failure(shop: Shop, start: Start) -> None:
    shop.ok("enqueue", "until_told", "--id", "long")
    process = start("--reload-grace", "0.2")
    process.line("running")
    change(shop, 'print("told", await job.signal.wait(), flush=True)', "return None")
    process.line("told")
    assert "1 released" in process.line("stopped")
    assert told(process, "handing back") == "handing back 1 job"
    job = until(lambda: (found := shop.json("jobs", "show", "slow", "long"))["state"] == "completed" and found)
    assert job["counters"] == {"attempts": 2, "failures": 0, "stalls": 0, "timeouts": 0, "releases": 1}
    assert [each["transition"] for each in job["timeline"]] == ["enqueue", "claim", "release", "claim", "complete"]


def test_code_that_cannot_be_compiled_is_told_and_the_worker_goes_on(shop: Shop, start: Start) -> None:
    process = start()
    process.line("serves mail")
    change(shop, "async def send(", "async def send((")
    line = told(process, "until the next change")
    assert re.match(r"holdfast: shop\.py, line \d+: .*; the worker goes on with the code of before", line)
    (worker,) = shop.json("workers", "--url", "sqlite:///jobs.db")["workers"]
    assert worker["alive"]
    change(shop, "async def send((", "async def send(")
    process.line("stopped")
    process.line("serves mail")


def test_code_that_cannot_be_imported_is_waited_for(shop: Shop, start: Start) -> None:
    change(shop, "import dataclasses\n", "import dataclasses\nimport no_such_module\n")
    process = start()
    told(process, "the worker has ended: waiting for a change of its code")
    assert "cannot be imported: No module named 'no_such_module'" in process.errors.read_text()
    change(shop, "import no_such_module\n", "")
    process.line("serves mail")
    process.signal(signal.SIGTERM)
    assert process.end()[0] == 0


def test_an_interrupt_while_it_waits_for_a_change_ends_it(shop: Shop, start: Start) -> None:
    change(shop, "import dataclasses\n", "import no_such_module\n")
    process = start()
    told(process, "waiting for a change")
    process.signal(signal.SIGINT)
    assert process.end()[0] == 1


def test_the_worker_ends_when_what_watches_is_killed(shop: Shop, start: Start) -> None:
    process = start()
    process.line("serves mail")
    (worker,) = shop.json("workers")["workers"]
    process.signal(signal.SIGKILL)
    until(lambda: not shop.json("workers")["workers"] or not os.path.exists(f"/proc/{worker['pid']}"))


def test_the_worker_knows_that_this_is_development(shop: Shop, start: Start) -> None:
    change(shop, 'return f"{n} to {to}"', 'return os.environ["HOLDFAST_DEVELOPMENT"]')
    process = start()
    process.line("serves mail")
    assert shop.json("enqueue", "send", "to=ann", "--wait=20")["result"] == "1"


def test_a_change_in_the_same_second_and_of_the_same_size_counts(
    shop: Shop, start: Start, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python would take what it had compiled before for the file's."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    os.utime(shop.folder / "shop.py", (1_000_000_000, 1_000_000_000))
    process = start()
    process.line("serves mail")
    assert list(shop.folder.glob("__pycache__/shop.*.pyc"))
    text = (shop.folder / "shop.py").read_text().replace('"{n} to {to}"', '"{n} bo {to}"')
    (shop.folder / "shop.new").write_text(text)
    os.utime(shop.folder / "shop.new", ns=(10**18 + 1000, 10**18 + 1000))
    (shop.folder / "shop.new").rename(shop.folder / "shop.py")
    process.line("stopped")
    process.line("serves mail")
    assert shop.json("enqueue", "send", "to=ann", "--wait=20")["result"] == "1 bo ann"


def test_a_policy_may_be_edited_while_it_runs(shop: Shop, start: Start) -> None:
    process = start()
    process.line("serves mail")
    change(shop, "retry=Retry(failures=2), on_failure=give_up", "retry=Retry(failures=7), on_failure=give_up")
    process.line("serves mail")
    tasks = {task["task"]: task["failures"] for task in shop.json("tasks")["tasks"]}
    assert tasks["send"] == 7


def test_other_files_and_folders_are_watched_when_named(shop: Shop, start: Start) -> None:
    (shop.folder / "templates").mkdir()
    process = start("--reload-dir", "templates", "--reload-include", "*.html")
    process.line("serves mail")
    change(shop, "import dataclasses\n", "import dataclasses  # as before\n")
    (shop.folder / "templates" / "mail.html").write_text("<p>")
    assert told(process, "changed:") == "holdfast: changed: templates/mail.html; starting the worker again"
    process.line("serves mail")


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["--reload", "--burst"],
         "--reload goes on until it is stopped, and --burst ends when nothing is left: give one"),
        (["--reload", "--processes", "2"], "--reload is for one process, here: leave --processes and --on out"),
        (["--reload", "--reload-dir", "nowhere"], "--reload-dir='nowhere': there is no such folder"),
        (["--reload-dir", "."], "--reload-dir is for --reload: give it, too"),
        (["--reload-include", "*.html"], "--reload-include is for --reload: give it, too"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(shop: Shop, words: list[str], wrong: str) -> None:
    assert shop.error("worker", *words) == wrong


# --- the watching itself


def test_files_are_wanted_by_name_and_not_in_folders_of_others(tmp_path: Path) -> None:
    files = CodeFiles([tmp_path], ("*.py",))
    wanted = ["a.py", "pkg/b.py"]
    unwanted = ["a.txt", ".venv/lib/c.py", "venv/c.py", "pkg/__pycache__/b.py", ".git/x.py"]
    for name in [*wanted, *unwanted]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    assert sorted(files.stamps()) == sorted(str(tmp_path / name) for name in wanted)
    assert [name for name in [*wanted, *unwanted] if files.wants(str(tmp_path / name))] == wanted
    assert not files.wants("/elsewhere/a.py")


@pytest.mark.parametrize("watch", [changes, lambda files: polled(files, 0.01)], ids=["notices", "polling"])
def test_files_that_change_and_are_removed_are_seen(tmp_path: Path, watch: Callable[[CodeFiles], object]) -> None:
    file, numbers, seen = tmp_path.resolve() / "a.py", itertools.count(), set[str]()

    async def look() -> None:
        async for found in watch(CodeFiles([file.parent], ("*.py",))):  # type: ignore[attr-defined]
            seen.update(found)

    def has_seen_a_change() -> bool:
        file.write_text(str(next(numbers)))  # again, as nobody may have looked yet
        return str(file) in seen

    async def story() -> None:
        looking = asyncio.create_task(look())
        await eventually(has_seen_a_change)
        file.unlink()
        seen.clear()
        await eventually(lambda: str(file) in seen, "its end is seen")
        looking.cancel()

    run(story())
