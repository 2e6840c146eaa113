"""`holdfast worker --reload`: a worker in a process of its own, started again whenever the code changes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import closing, suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from ...app.loader import place_of
from ...errors import ConfigError
from ...supervisor.child import KEEPER
from ...supervisor.command import worker_command
from ...supervisor.report_pipe import ReportPipe
from ...worker.signals import heard
from ..output import say_note
from .options import WorkerCommand
from .watch import CodeFiles, changes, has_watchfiles

DEVELOPMENT = "HOLDFAST_DEVELOPMENT"
"""What tells an app that its code is being worked on."""
PATIENCE = 10.0
"""So many seconds after the last signal, and the graces of its handlers, a process that does not end is killed."""


def run_reloading(command: WorkerCommand) -> int:
    """Run a worker, anew after each change of the code, until it is told to stop; return its exit code."""
    if command.burst:
        raise ConfigError("--reload goes on until it is stopped, and --burst ends when nothing is left: give one")
    if command.processes > 1 or command.on != "here":
        raise ConfigError("--reload is for one process, here: leave --processes and --on out")
    files = code_files(command)
    how = "by the system's notices" if has_watchfiles() else "by looking twice a second"
    say_note(f"watching {', '.join(map(str, files.folders))} for changes of {', '.join(files.patterns)}, {how}")
    return asyncio.run(Reloader(_words(command), command).run(changes(files)))


def code_files(command: WorkerCommand) -> CodeFiles:
    """Return what is watched: the folders given, or the current one and that of the app's file."""
    given = [Path(each) for each in command.reload_dir]
    if missing := [each for each in given if not each.is_dir()]:
        raise ConfigError(f"--reload-dir={str(missing[0])!r}: there is no such folder")
    wanted = given or [Path.cwd(), *filter(None, [place_of(command.app_path)])]
    folders = sorted({each.resolve() for each in wanted})
    outer = [each for each in folders if not any(each != other and each.is_relative_to(other) for other in folders)]
    return CodeFiles(outer, ("*.py", *command.reload_include))


def _words(command: WorkerCommand) -> list[str]:
    options = command.options
    options["grace"] = min(command.grace, command.reload_grace)
    return [*worker_command(command.app_path, command.queues, options), *command.words, *["--quiet"] * command.quiet]


class Reloader:
    """One process after another. It is a group of its own, so that Ctrl-C reaches it once, through this one."""

    def __init__(self, words: Sequence[str], command: WorkerCommand) -> None:
        self._words = words
        self._drain, self._grace = command.reload_grace, command.grace
        self._child: asyncio.subprocess.Process | None = None
        self._signals: list[int] = []
        self._changed = asyncio.Event()
        """Set when the code has changed, and when a signal came."""
        self._files: set[str] = set()
        """What has changed since the code was last good."""

    async def run(self, changed: AsyncIterator[set[str]]) -> int:
        """Return the exit code of the last process, once it was told to stop or has ended well."""
        loop = asyncio.get_running_loop()

        def hears(number: int) -> None:
            loop.call_soon_threadsafe(self._pass_on, number)

        watching = asyncio.create_task(self._watch(changed))
        life, alive = os.pipe()
        try:
            with heard(hears):
                return await self._keep(life)
        finally:
            watching.cancel()
            for end in (life, alive):
                os.close(end)

    async def _keep(self, life: int) -> int:
        while True:
            with closing(ReportPipe(asyncio.Event())) as pipe:
                code = await self._one(life, pipe)
            if code is not None:
                return code

    async def _one(self, life: int, pipe: ReportPipe) -> int | None:
        """Run a process until the code changes; return its exit code, if it is the last."""
        child = self._child = await self._spawn(life, pipe)
        ended = asyncio.ensure_future(child.wait())
        while not ended.done():
            await _first(ended, self._changed)
            if self._signals or ended.done():
                break
            if self._is_good():
                await self._stop(child, ended)
                return None
        code = await ended
        if self._signals or code == 0:
            return max(code, 0)
        say_note("the worker has ended: waiting for a change of its code")
        await self._changed.wait()
        self._changed.clear()
        _forget_compiled(self._files)
        self._files.clear()
        return 1 if self._signals else None

    async def _spawn(self, life: int, pipe: ReportPipe) -> asyncio.subprocess.Process:
        told = {DEVELOPMENT: "1", KEEPER: f"{life},{pipe.write}"}
        try:
            return await asyncio.create_subprocess_exec(
                *self._words, stdin=asyncio.subprocess.DEVNULL, env={**os.environ, **told},
                pass_fds=(life, pipe.write), process_group=0,
            )  # fmt: skip
        finally:
            pipe.started()

    async def _watch(self, changed: AsyncIterator[set[str]]) -> None:
        async for files in changed:
            self._files |= files
            self._changed.set()

    def _is_good(self) -> bool:
        """Return whether what has changed can be compiled; say which file cannot. The worker then goes on as it is."""
        self._changed.clear()
        for file in sorted(self._files):
            if wrong := _mistake(file):
                say_note(f"{wrong}; the worker goes on with the code of before, until the next change")
                return False
        say_note(f"changed: {', '.join(sorted(map(_shown, self._files)))}; starting the worker again")
        _forget_compiled(self._files)
        self._files.clear()
        return True

    async def _stop(self, child: asyncio.subprocess.Process, ended: asyncio.Future[int]) -> None:
        """End a process: its handlers may finish for a moment, are then told to stop, and their jobs handed back."""
        for number, seconds in (
            (signal.SIGTERM, self._drain), (signal.SIGINT, 2 * self._grace + PATIENCE), (signal.SIGKILL, None),
        ):  # fmt: skip
            _send(child, number)
            done, _ = await asyncio.wait([ended], timeout=seconds)
            if done:
                return

    def _pass_on(self, number: int) -> None:
        self._signals.append(number)
        self._changed.set()
        if self._child is not None:
            _send(self._child, number if len(self._signals) < 3 else signal.SIGKILL)


async def _first(ended: asyncio.Future[int], event: asyncio.Event) -> None:
    """Return when a process has ended or the event is set."""
    waiting = asyncio.ensure_future(event.wait())
    futures: list[asyncio.Future[Any]] = [ended, waiting]
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def _send(child: asyncio.subprocess.Process, number: int) -> None:
    with suppress(ProcessLookupError):
        child.send_signal(number)


def _mistake(file: str) -> str | None:
    """Return what keeps a file from being compiled, in words."""
    if not file.endswith(".py"):
        return None
    try:
        compile(Path(file).read_bytes(), file, "exec")
    except SyntaxError as error:
        return f"{_shown(file)}, line {error.lineno}: {error.msg}"
    except (OSError, ValueError) as error:
        return None if isinstance(error, FileNotFoundError) else f"{_shown(file)}: {error}"
    return None


def _forget_compiled(files: Iterable[str]) -> None:
    """Remove what Python has compiled of these files: it tells code apart by size and whole second of change alone."""
    for file in files:
        if file.endswith(".py"):
            with suppress(OSError, NotImplementedError):
                Path(cache_from_source(file)).unlink()


def _shown(file: str) -> str:
    return os.path.relpath(file) if Path(file).is_relative_to(Path.cwd()) else file
