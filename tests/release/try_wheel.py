"""Try a wheel as a new user would: an empty environment, and the five-minute start of the README, word for word.

    python tests/release/try_wheel.py dist [--tag v1.2.3]     `make dist` calls it

It also writes `dist/sbom.cdx.json`, the bill of materials of the wheel with the extra `all`.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
START = (ROOT / "README.md").read_text("utf-8").split("## Five-minute start")[1].split("\n## ")[0]
PATIENCE = 60.0
LIVE = re.compile(r"--follow| top | serve ")
"""Commands that go on until they are interrupted."""
SAID = ["cat.jpg: 64 x 64", "queued welcome-ann", "sent to ann@example.com at attempt 2"]


class Place:
    """An environment with nothing but what was installed by name, and a folder to work in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        venv.create(folder / "env")
        self.bin = folder / "env" / "bin"
        self.environment = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(folder), "TERM": "xterm", "COLUMNS": "80"}

    def install(self, requirement: str) -> None:
        """Install by the pip of the caller, so that the environment stays empty."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "--disable-pip-version-check"]
        subprocess.run([*pip, "--quiet", "install", requirement], check=True)

    def run(self, command: str) -> str:
        """Run a command of the README that ends by itself, and return what it printed."""
        done = subprocess.run(
            self._words(command),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def watch(self, command: str) -> None:
        """Start a command of the README that goes on, on a terminal; it prints something, and ends at Ctrl-C."""
        ours, theirs = pty.openpty()
        process = self.start(command, theirs)
        os.close(theirs)
        ready, _, _ = select.select([ours], [], [], PATIENCE)
        assert ready, f"{command} printed nothing"
        process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < deadline:
            if select.select([ours], [], [], 0.1)[0]:
                _drain(ours)
        os.close(ours)
        assert process.poll() in (0, 130), f"{command} ended with {process.poll()} after Ctrl-C"

    def start(self, command: str, terminal: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """Start a command of the README."""
        return subprocess.Popen(
            self._words(command), cwd=self.folder, env=self.environment, start_new_session=True,
            stdin=terminal, stdout=terminal, stderr=terminal, preexec_fn=_hear_interrupts,
        )  # fmt: skip

    def _words(self, command: str) -> list[str]:
        program, *rest = shlex.split(command, comments=True)
        return [str(self.bin / program), *rest]


def _hear_interrupts() -> None:
    """Undo what a shell does to programs that it starts in the background: they do not hear Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _drain(terminal: int) -> None:
    try:
        os.read(terminal, 65536)
    except OSError:  # the other end is gone
        return


def five_minutes(place: Place, wheel: Path) -> None:
    """Do what the README says, with the wheel in place of the name of the package."""
    commands = [line.removeprefix("$ ") for line in START.splitlines() if line.startswith("$ ")]
    make_environment, install, worker, producer, *looks = commands
    assert make_environment.startswith("python3 -m venv"), make_environment
    place.install(_of_wheel(install, wheel))
    (place.folder / "shop.py").write_text(START.split("```python\n")[1].split("```")[0])
    running = place.start(worker)
    try:
        assert place.run(producer).splitlines() == SAID
        assert place.run(producer).splitlines()[1] == SAID[1].replace("queued", "completed")
        for command in looks:
            _look(place, command, wheel)
    finally:
        running.terminate()
    assert running.wait(PATIENCE) == 0, "the worker did not end well"


def _look(place: Place, command: str, wheel: Path) -> None:
    words, _, comment = command.partition("#")
    if "pip install" in comment:
        place.install(_of_wheel(comment[comment.index("pip install") :], wheel))
    if LIVE.search(words):
        place.watch(words)
    else:
        assert place.run(words), f"{words} printed nothing"
    print(f"  {words.strip()}")


def _of_wheel(command: str, wheel: Path) -> str:
    """Return what a `pip install` of the README installs, from the wheel."""
    extras = re.fullmatch(r"pip install '?holdfast-queue(\[[\w,]+\])?'?", command.strip())
    assert extras, command
    return f"{wheel}{extras[1] or ''}"


def write_bill(place: Place, wheel: Path, file: Path) -> None:
    """Write what the wheel needs with all extras, as CycloneDX."""
    place.install(f"{wheel}[all]")
    command = ["cyclonedx-py", "environment", "--output-reproducible", "--validate", "--of", "JSON", "-o", str(file)]
    command += ["--pyproject", str(ROOT / "pyproject.toml"), "--mc-type", "library", str(place.bin / "python")]
    subprocess.run([str(Path(sys.executable).parent / command[0]), *command[1:]], check=True)


def main() -> None:
    """Try the wheel of a folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("dist", type=Path)
    parser.add_argument("--tag", help="fail unless the wheel has this version")
    given = parser.parse_args()
    (wheel,) = given.dist.resolve().glob("*.whl")
    version = wheel.name.split("-")[1]
    if given.tag and given.tag != f"v{version}":
        sys.exit(
            f"the tag is {given.tag}, and the wheel's version {version}: change pyproject.toml and core/version.py"
        )
    print(f"The five-minute start, with {wheel.name} in an empty environment:")
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        five_minutes(place, wheel)
        write_bill(place, wheel, given.dist / "sbom.cdx.json")
    print(f"{given.dist}: {', '.join(sorted(path.name for path in given.dist.iterdir()))}")


if __name__ == "__main__":
    main()
