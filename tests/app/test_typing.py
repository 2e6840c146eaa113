"""The types, as a type checker sees them: right examples pass under --strict, each wrong line is reported."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
UNTYPED = "holdfast.contrib.django."
"""Django has no types, so that classes made of its classes have none."""
FOLDER = ROOT / "tests" / "typing"


def check(name: str) -> tuple[int, list[str]]:
    """Return the exit code of mypy over one file, and the lines that it printed."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--hide-error-context",
        str(FOLDER / name),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=FOLDER.parent.parent)
    return done.returncode, (done.stdout + done.stderr).splitlines()


def test_right_examples_pass_under_strict() -> None:
    assert check("right.py") == (0, [])


def wrong_lines() -> dict[int, str]:
    """Return the lines that a checker must report, with what mypy says of each."""
    lines = enumerate((FOLDER / "wrong.py").read_text().splitlines(), 1)
    return {
        number: line.split("# wrong: ")[1].strip()
        for number, line in lines
        if "# wrong: " in line and "`# wrong:`" not in line
    }


def test_each_wrong_line_is_reported_and_no_other() -> None:
    code, output = check("wrong.py")
    reported: dict[int, str] = {}
    for line in output:
        if found := re.match(r".*?wrong\.py:(\d+): error: (.*)", line):
            reported[int(found[1])] = reported.get(int(found[1]), "") + found[2]
    expected = wrong_lines()
    assert code == 1
    assert len(expected) > 20
    for number, text in expected.items():
        assert text in reported.get(number, "nothing"), f"line {number}: {reported.get(number)}"
    assert set(reported) == set(expected), "\n".join(output)


def pyright(*words: str, folder: Path = ROOT) -> dict[str, Any]:
    """Return what pyright says, run in a folder, with this Python's packages."""
    programs = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    command = [str(programs / "pyright"), "--outputjson", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.fixture(scope="module")
def said() -> dict[str, list[tuple[int, str]]]:
    """Line and message of each error that pyright finds in the examples, by file."""
    found: dict[str, list[tuple[int, str]]] = {"right.py": [], "wrong.py": []}
    for each in pyright("--project", "pyproject.toml")["generalDiagnostics"]:
        found[Path(each["file"]).name].append((each["range"]["start"]["line"] + 1, each["message"]))
    return found


def test_right_examples_pass_under_pyright(said: dict[str, list[tuple[int, str]]]) -> None:
    assert said["right.py"] == []


def test_pyright_reports_each_wrong_line_and_no_other(said: dict[str, list[tuple[int, str]]]) -> None:
    assert {line for line, _ in said["wrong.py"]} == set(wrong_lines())


def test_pyright_knows_the_type_of_every_public_symbol(tmp_path: Path) -> None:
    found = pyright("--verifytypes", "holdfast", "--ignoreexternal", folder=tmp_path)["typeCompleteness"]
    symbols = [each for each in found["symbols"] if each["isExported"] and not each["name"].startswith(UNTYPED)]
    unknown = [each["name"] for each in symbols if not each["isTypeKnown"] and not each["isTypeAmbiguous"]]
    assert len(symbols) > 5_000
    assert unknown == []


def test_the_package_says_that_it_is_typed() -> None:
    import holdfast

    assert (Path(holdfast.__file__).parent / "py.typed").exists()
