"""The types, as a type checker sees them: right examples pass under --strict, each wrong line is reported."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "typing"


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


def test_each_wrong_line_is_reported_and_no_other() -> None:
    code, output = check("wrong.py")
    reported: dict[int, str] = {}
    for line in output:
        if found := re.match(r".*?wrong\.py:(\d+): error: (.*)", line):
            reported[int(found[1])] = reported.get(int(found[1]), "") + found[2]
    expected = {
        number: line.split("# wrong: ")[1].strip()
        for number, line in enumerate((FOLDER / "wrong.py").read_text().splitlines(), 1)
        if "# wrong: " in line and "`# wrong:`" not in line
    }
    assert code == 1
    assert len(expected) > 20
    for number, text in expected.items():
        assert text in reported.get(number, "nothing"), f"line {number}: {reported.get(number)}"
    assert set(reported) == set(expected), "\n".join(output)


def test_the_package_says_that_it_is_typed() -> None:
    import holdfast

    assert (Path(holdfast.__file__).parent / "py.typed").exists()
