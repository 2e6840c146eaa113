"""Changes of code: the files of some folders, by the system's own notices or by looking again and again."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

POLL = 0.5
SKIPPED = frozenset({
    "__pycache__", "node_modules", "site-packages", "venv", "env", "build", "dist",
})  # fmt: skip
"""Folders that nobody edits code in, besides those whose name begins with a dot."""


@dataclass(frozen=True)
class CodeFiles:
    """The files to watch: those in the folders, and below, whose names match one of the patterns."""

    folders: Sequence[Path]
    patterns: Sequence[str]

    def wants(self, path: str) -> bool:
        """Return whether a file is one of them."""
        folder = next((each for each in self.folders if Path(path).is_relative_to(each)), None)
        if folder is None:
            return False
        *parents, name = Path(path).relative_to(folder).parts
        return not any(map(_is_skipped, parents)) and any(fnmatch(name, each) for each in self.patterns)

    def stamps(self) -> dict[str, tuple[int, int]]:
        """Return when each of them was changed, and its size."""
        return {path: stamp for folder in self.folders for path, stamp in self._below(str(folder))}

    def _below(self, folder: str) -> Iterator[tuple[str, tuple[int, int]]]:
        for parent, folders, names in os.walk(folder):
            folders[:] = [each for each in folders if not _is_skipped(each)]
            for name in names:
                if any(fnmatch(name, each) for each in self.patterns):
                    path = os.path.join(parent, name)
                    try:
                        found = os.stat(path)
                    except OSError:  # an editor has just replaced it
                        continue
                    yield path, (found.st_mtime_ns, found.st_size)


def _is_skipped(folder: str) -> bool:
    return folder in SKIPPED or folder.startswith(".")


def has_watchfiles() -> bool:
    """Return whether the package is there that asks the system to tell of changes."""
    try:
        import watchfiles  # noqa: F401
    except ImportError:
        return False
    return True


def changes(files: CodeFiles) -> AsyncIterator[set[str]]:
    """Yield the files that have changed, whenever some have, several at once where an editor writes several."""
    return _told(files) if has_watchfiles() else polled(files)


async def _told(files: CodeFiles) -> AsyncIterator[set[str]]:
    from watchfiles import awatch

    watcher = logging.getLogger("watchfiles")
    if watcher.level == logging.NOTSET:  # it logs how many files changed, and we say which
        watcher.setLevel(logging.WARNING)

    def wants(change: object, path: str) -> bool:
        return files.wants(path)

    async for found in awatch(*files.folders, watch_filter=wants, debounce=400, step=50):
        yield {path for _, path in found}


async def polled(files: CodeFiles, interval: float = POLL) -> AsyncIterator[set[str]]:
    """Yield the files that have changed, by their times."""
    before = files.stamps()
    while True:
        await asyncio.sleep(interval)
        now = await asyncio.to_thread(files.stamps)
        if changed := {path for path in {*before, *now} if before.get(path) != now.get(path)}:
            before = now
            yield changed
