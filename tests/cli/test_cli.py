"""The command line: finding the app, errors in one line, and what people see."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from cli_shop import Shop, in_shop
from click.testing import CliRunner

from holdfast import __version__
from holdfast.cli import cli
from holdfast.cli.root import MODULES


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop in the current folder, named by HOLDFAST_APP."""
    with in_shop(tmp_path, monkeypatch) as shop:
        yield shop


# --- help


def test_alone_it_shows_its_commands(shop: Shop) -> None:
    assert "worker" in shop.ok()
    assert shop.ok("--version") == f"holdfast {__version__}\n"


def test_every_command_has_help_with_examples() -> None:
    runner = CliRunner()
    context = click.Context(cli)
    for name in MODULES:
        command = cli.get_command(context, name)
        words = [[name], *([name, each] for each in getattr(command, "commands", {}))]
        for each in words:
            told = runner.invoke(cli, [*each, "--help"])
            assert told.exit_code == 0
            assert "Example" in told.stdout, each
            assert f"holdfast {each[0]}" in told.stdout, each


def test_a_command_imports_no_other() -> None:
    code = (
        "import sys; from holdfast.cli import cli\n"
        "cli(['jobs', 'list', '--help'], standalone_mode=False)\n"
        "print([name for name in sys.modules if name.startswith(('holdfast.worker', 'holdfast.cli.top'))])"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_the_demo_is_a_command() -> None:
    assert CliRunner().invoke(cli, ["demo", "--help"]).exit_code == 0


def test_a_wrong_command_is_told_the_nearest(shop: Shop) -> None:
    assert shop.error("jbos") == "there is no command 'jbos'; did you mean 'jobs'? (try holdfast --help)"
    assert shop.error("jobs", "shwo") == ("there is no command 'shwo'; did you mean 'show'? (try holdfast jobs --help)")
    assert shop.error("xyzzyplugh").startswith("there is no command 'xyzzyplugh'; known are worker, enqueue, jobs")


# --- finding the app


def test_an_app_is_found_by_module_by_file_and_by_default_name(shop: Shop) -> None:
    for target in ("shop:app", "shop", "shop.py:app", "shop.py", "./shop.py:app"):
        assert shop.json("queues", "--app", target) == {"queues": []}


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("nope:app", "'nope:app': there is no module 'nope' here ({cwd}) or installed"),
        ("nope.py:app", "'nope.py:app': there is no file {cwd}/nope.py"),
        ("shop.py:nope", "'shop.py:nope': the module shop has no 'nope'; it has app"),
        ("shop.py:send", "'shop.py:send': the module shop has 'send', a Task and no app; it has app"),
        (
            "broken.py",
            "'broken.py' cannot be imported: ZeroDivisionError: division by zero ({cwd}/broken.py, line 2)",
        ),
        (
            "needy.py",
            "'needy.py' cannot be imported: No module named 'nowhere_at_all' ({cwd}/needy.py, line 1)",
        ),
        ("typo.py", "'typo.py' cannot be imported: SyntaxError: invalid syntax (typo.py, line 1)"),
        ("typo:app", "'typo:app' cannot be imported: SyntaxError: invalid syntax (typo.py, line 1)"),
        ("empty.py", "'empty.py': the module empty has no 'app'; it makes no Holdfast(...)"),
        ("shop:a b", "'shop:a b' names no app; write module:app or path/to/file.py:app"),
    ],
)
def test_an_app_that_is_not_there_is_one_line(shop: Shop, target: str, told: str) -> None:
    (shop.folder / "broken.py").write_text("import sys\n1 / 0\n")
    (shop.folder / "needy.py").write_text("import nowhere_at_all\n")
    (shop.folder / "empty.py").write_text("")
    (shop.folder / "typo.py").write_text("def f(:\n")
    assert shop.error("queues", "--app", target) == told.format(cwd=shop.folder.resolve())
    assert shop.error("worker", target) == told.format(cwd=shop.folder.resolve())


def test_a_module_that_lacks_another_says_which(shop: Shop) -> None:
    (shop.folder / "needful.py").write_text("import nowhere_at_all\n")
    line = f"{shop.folder.resolve()}/needful.py, line 1"
    assert shop.error("queues", "--app", "needful:app") == (
        f"'needful:app' cannot be imported: No module named 'nowhere_at_all' ({line})"
    )


def test_a_store_must_be_named(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_APP")
    assert shop.error("jobs") == (
        "which store? Give --app module:app or --url sqlite:///jobs.db, or set HOLDFAST_APP or HOLDFAST_URL"
    )
    assert shop.error("worker").startswith("which app? Write holdfast worker module:app, or set HOLDFAST_APP")
    assert shop.error("settings").startswith("which app? Write holdfast settings module:app")
    assert shop.error("jobs", "--app", "a:b", "--url", "x://") == "--app and --url exclude each other: give one"


@pytest.mark.parametrize("option", ["--app", "--url"])
def test_a_store_that_is_named_by_nothing_is_not_that_of_the_environment(shop: Shop, option: str) -> None:
    """As in `--url "$STAGING"` where the variable is not set: the command would act on another store."""
    assert shop.error("requeue", "--yes", option, "") == f"{option} is empty: name a store, or leave it out"


def test_the_environment_names_a_store_and_an_option_beats_it(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.ok("enqueue", "send", "to=ann")
    monkeypatch.setenv("HOLDFAST_APP", "")
    monkeypatch.setenv("HOLDFAST_URL", "sqlite:///jobs.db")
    assert len(shop.json("jobs")["jobs"]) == 1
    assert shop.error("jobs", "--url", "sqlite:///other.db").startswith("there is no store at other.db")
    assert not (shop.folder / "other.db").exists()


LOOKS = (
    ["jobs"], ["jobs", "show", "mail", "j"], ["chains"], ["queues"], ["tasks"], ["schedules"], ["workers"], ["events"],
    ["doctor"], ["pause", "mail"], ["queues", "set", "mail", "concurrency=1"], ["cancel", "mail", "j"],
)  # fmt: skip


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_whoever_looks_makes_no_store(shop: Shop, words: list[str]) -> None:
    store = shop.folder / "jobs.db"
    store.unlink()
    told = f"there is no store at jobs.db: check the URL and the working directory, {Path.cwd()} (holdfast worker, "
    assert shop.error(*words).startswith(told)
    assert not store.exists()


def test_whoever_looks_at_a_file_of_something_else_leaves_it_alone(shop: Shop) -> None:
    other = shop.folder / "other.db"
    other.touch()
    assert "there is no store at other.db (namespace holdfast)" in shop.error("jobs", "--url", "sqlite:///other.db")
    assert other.read_bytes() == b""
    assert "there is no store at jobs.db (namespace typo)" in shop.error(
        "doctor", "--url", "sqlite:///jobs.db?namespace=typo"
    )


@pytest.mark.parametrize("words", [["enqueue", "send", "to=ann"], ["migrate"]], ids=" ".join)
def test_whoever_brings_something_makes_the_store(shop: Shop, words: list[str]) -> None:
    (shop.folder / "jobs.db").unlink()
    shop.ok(*words)
    assert shop.json("workers") == {"workers": []}


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("jobs.db", "'jobs.db' is not a store URL; try sqlite:///jobs.db or memory://"),
        ("foo://x", "'foo://x': there is no store for foo://; known are memory, "),
        ("memory://", "memory:// is one process's own memory, and this is another process"),
        ("sqlite:///x.db?what=1", "'sqlite:///x.db?what=***': what=*** is not an option here"),
    ],
)
def test_a_url_that_cannot_be_right_is_one_line(shop: Shop, url: str, told: str) -> None:
    assert shop.error("jobs", "--url", url).startswith(told)


# --- errors


def test_trouble_with_the_store_is_one_line_and_exit_code_one(shop: Shop) -> None:
    (shop.folder / "jobs.db").write_text("this is not a database, however long you look at it " * 20)
    assert shop.error("jobs", code=1).startswith("jobs.db is damaged or not a SQLite file")


def test_a_traceback_is_shown_only_when_asked_for(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Traceback" not in shop.run("jobs", "show", "mail", "nope").stderr
    assert "Traceback" in shop.run("jobs", "show", "mail", "nope", "--debug").stderr
    assert "Traceback" in shop.run("--debug", "jobs", "show", "mail", "nope").stderr
    monkeypatch.setenv("HOLDFAST_DEBUG", "1")
    assert "Traceback" in shop.run("jobs", "show", "mail", "nope").stderr


def test_an_unexpected_error_is_one_line_too(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*args: object, **options: object) -> None:
        raise RuntimeError("out of\ncheese")

    monkeypatch.setattr(type(shop.app), "queues", broken)
    told = shop.error("queues", code=1)
    assert told == "RuntimeError: out of cheese (unexpected; --debug shows where)"


def test_wrong_options_are_one_line(shop: Shop) -> None:
    told = shop.error("jobs", "--nope")
    assert told.startswith("No such option")
    assert told.endswith("(try holdfast jobs list --help)")
    assert shop.error("jobs", "--limit", "0").startswith("Invalid value for '--limit': 0 is not in the range")
    assert shop.error("jobs", "--state", "lost").startswith("Invalid value for '--state': 'lost' is not one of")
    assert shop.error("jobs", "--cursor", "x") == "cursor 'x' is not one that a list of jobs gave"
    assert shop.error("cancel", "mail").startswith("Missing argument 'ID...'")


# --- what people see


def test_nothing_that_is_piped_has_colours_or_is_cut(shop: Shop) -> None:
    long = "x" * 300
    shop.ok("enqueue", "send", "to=ann", "--id", long)
    told = shop.ok("jobs")
    assert long in told
    assert "\x1b" not in told


def test_what_a_job_carries_cannot_steer_the_terminal(shop: Shop) -> None:
    shop.ok("enqueue", "boom", "what=\x1b]0;owned\x07 [bold]not markup[/bold]", "--id", "[red]a\x1b[2J")
    shop.work()
    for told in (shop.ok("jobs"), shop.ok("events"), shop.ok("jobs", "show", "mail", "[red]a\x1b[2J")):
        assert "\x1b" not in told
        assert "[red]a\\x1b[2J" in told
    assert "[bold]not markup[/bold]" in shop.ok("jobs")


# --- settings


def test_settings_say_which_layer_won(shop: Shop) -> None:
    won = {each["setting"]: each for each in shop.json("settings", "shop.py:app", "send")}
    assert {name: each["source"] for name, each in won.items()} == {
        "retry": "task", "timeout": "app", "priority": "library", "result_ttl": "queue", "codec": "library",
        "result_codec": "library", "max_payload": "library", "max_result": "library",
        "executor": "library", "completion": "library", "size": "library",
        "sandbox": "library", "key_required": "library", "lease": "library",
        "on_failure": "task",
    }  # fmt: skip
    assert won["retry"]["value"]["failures"] == 2
    assert won["timeout"]["value"] == 60
    assert won["result_ttl"]["value"] == 120
    assert won["on_failure"]["value"] == "give_up"
    assert won["executor"]["value"] == "inline"


def test_settings_of_all_tasks_are_a_table(shop: Shop) -> None:
    told = shop.ok("settings")
    assert {line.split()[0] for line in told.splitlines()[1:]} == {
        "give_up", "send", "buy", "boom", "until_go", "until_told", "deaf", "deaf_thread", "deaf_helper",
        "leaves_a_thread",
    }  # fmt: skip
    assert "thread" in next(line for line in told.splitlines() if line.startswith("buy") and " executor " in line)


def test_settings_of_what_is_not_there(shop: Shop) -> None:
    assert shop.error("settings", "shop.py:app", "nope").startswith("there is no task 'nope'; known are give_up, send")
    assert shop.error("settings", "nope").startswith("there is no task 'nope'")
    assert shop.error("settings", "a", "b", "c") == "settings takes an app and a task, not 3 words"
