"""`holdfast init`, whose project runs and is typed, and completion in the shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_shop import Shop, in_shop
from click.testing import CliRunner, Result

from holdfast.cli import cli


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop in the current folder, named by HOLDFAST_APP."""
    with in_shop(tmp_path, monkeypatch) as shop:
        yield shop


def command(*words: str) -> Result:
    return CliRunner().invoke(cli, words, prog_name="holdfast")


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Return what a module of Python did in a folder."""
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True, check=False, env=surroundings,
        timeout=110,
    )  # fmt: skip


# --- init


def test_a_project_in_the_place_of_a_file_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").write_text("a file")
    done = command("init", "shop")
    assert (done.exit_code, done.stderr) == (
        1, f"holdfast: init: {tmp_path}/shop: File exists: choose another folder\n",
    )  # fmt: skip
    assert (tmp_path / "shop").read_text() == "a file"


def test_a_new_project_has_tests_that_pass_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = command("init", "my-shop")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[1:] == [
        "next:", "  cd my-shop", "  pip install -e '.[dev]'", "  pytest",
        "  holdfast worker my_shop.tasks:app --reload",
    ]  # fmt: skip
    folder = tmp_path / "my-shop"
    plugin = "import warnings\ndef pytest_configure(config): warnings.warn('of a plugin', DeprecationWarning)\n"
    (folder / "their_plugin.py").write_text(plugin)  # the environment may have others, whose warnings are not ours
    tested = python(folder, "pytest", "-q", "-p", "no:cacheprovider", "-p", "their_plugin")
    assert "4 passed" in tested.stdout, tested.stdout
    queued = python(folder, "holdfast", "enqueue", "--app", "my_shop.tasks:app", "greet", "name=Ann", "--id", "x")
    assert queued.stdout == "queued: mail/x run 1 (waiting)\n"
    assert python(folder, "holdfast", "worker", "my_shop.tasks:app", "--burst", "--quiet").returncode == 0
    watched = python(folder, "holdfast", "jobs", "watch", "x", "--app", "my_shop.tasks:app")
    assert watched.stdout.splitlines()[-1] == "mail/x run 1: completed, attempt 1"
    assert command("init", "my-shop").stderr.startswith(f"holdfast: init: {folder}/pyproject.toml is there already")


@pytest.mark.timeout(240)
def test_a_new_project_is_typed_strictly_and_formatted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("init", ".", "--name", "shop").exit_code == 0
    assert 'dependencies = ["holdfast-queue[cli]"]' in (tmp_path / "pyproject.toml").read_text()
    checked = python(tmp_path, "mypy", "--python-executable", sys.executable)
    assert checked.stdout == "Success: no issues found in 4 source files\n", checked.stdout + checked.stderr
    linted = python(tmp_path, "ruff", "check", "--isolated", "--select", "E,F,I,UP,B", "--line-length", "120", ".")
    assert linted.returncode == 0, linted.stdout
    assert python(tmp_path, "ruff", "format", "--isolated", "--line-length", "120", "--check", ".").returncode == 0


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["x", "--name", "my-shop"], "init: --name='my-shop', which is no name for a package"),
        (["x", "--name", "json"], "init: --name='json', which would hide a module of that name"),
        (["x", "--name", "class"], "init: --name='class', which is no name for a package"),
        (["holdfast"], "init: the folder 'holdfast' makes 'holdfast', which would hide a module of that name"),
        (["2nd"], "init: the folder '2nd' makes '2nd', which is no name for a package"),
    ],
)
def test_a_name_that_cannot_be_is_refused_and_nothing_written(
    words: list[str], wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = command("init", *words)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"holdfast: {wrong}")
    assert list(tmp_path.iterdir()) == []


# --- completion


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own."""
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_it_is_installed_once_and_sourced(home: Path, shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    (home / f".{shell}rc").write_text("export A=1")
    script = home / ".local" / "share" / "holdfast" / f"completion.{shell}"
    told = f"wrote {script}, and {home}/.{shell}rc sources it; open a new {shell} to have it\n"
    assert command("completion", "install").stdout == told
    assert command("completion", "install", shell).stdout == f"wrote {script}; open a new {shell} to have it\n"
    assert (home / f".{shell}rc").read_text() == f"export A=1\nsource '{script}'\n"
    assert script.read_text() == command("completion", "show", shell).stdout


def test_fish_finds_it_by_itself(home: Path) -> None:
    assert command("completion", "install", "fish").exit_code == 0
    assert "_HOLDFAST_COMPLETE=fish_complete" in (home / ".config/fish/completions/holdfast.fish").read_text()


def test_an_unknown_shell_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    done = command("completion", "install")
    assert done.stderr == "holdfast: SHELL='tcsh': say for which shell, one of bash, zsh, fish\n"


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_takes_the_script(tmp_path: Path) -> None:
    (tmp_path / "script").write_text(command("completion", "show", "bash").stdout)
    words = ["bash", "-c", "source ./script; complete -p holdfast"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "-F _holdfast_completion" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("holdfast wor", ["worker", "workers"]),
        ("holdfast worker --reload-i", ["--reload-include"]),
        ("holdfast enqueue se", ["send"]),
        ("holdfast jobs --queue o", ["orders"]),
        ("holdfast jobs show m", ["mail"]),
        ("holdfast cancel m", ["mail"]),
        ("holdfast jobs --task bo", ["boom"]),
    ],
)
def test_commands_options_tasks_and_queues_are_completed(shop: Shop, line: str, wanted: list[str]) -> None:
    surroundings = {"_HOLDFAST_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", "from holdfast.__main__ import main; main()"], cwd=shop.folder, capture_output=True,
        text=True, env={**os.environ, **surroundings}, check=False,
    )  # fmt: skip
    assert [each.partition(",")[2] for each in done.stdout.split()] == wanted, done.stderr
