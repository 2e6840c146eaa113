"""What the server itself can choose by, so that large payloads and results do not leave it.

To look into an entry costs the server ten times as much as to send a small one. So the first page is read plainly, and
only where its rows are large two read-only scripts choose and cut those that follow. They let through whatever may be
wanted, and the reader looks at every condition again. A user who may not run scripts is given everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ....core.state import LETTER
from ....errors import StoreError
from ...scan import ScanPlan

Ask = Callable[..., Any]
"""Asks the server that has a queue: (queue, *command)."""
Records = list[tuple[bytes, bytes | None]]
SCRIPT = "EVAL_RO"
"""The command that runs a script which may not write."""
MOST = 2**53
LARGE = 1024
"""Bytes of a row, from which on looking is cheaper than sending."""
LOOKED_AT = 200
"""Rows of one script: the server does nothing else for a few milliseconds."""
_NUMBERS = {"events": ("at_ms", "run", "attempt"), "jobs": ("run", "enqueued_at_ms", "finished_at_ms")}
_REFUSED = ("NOPERM", "no permissions", "unknown command")
_LETTERS = {str(state): letter for state, letter in LETTER.items()}


class Pruning:
    """The way in which the rows of one plan are asked for."""

    def __init__(self, plan: ScanPlan, ask: Ask) -> None:
        self._ask = ask
        self._chosen = _chosen(plan)
        needed = {*plan.columns, *(each.column for each in plan.which)}
        self._payload, self._result = "payload" in needed, "result" in needed
        self._has_more = bool(self._chosen) or not (self._payload and (self._result or plan.table == "events"))
        self._is_large = False

    @property
    def is_on(self) -> bool:
        """Whether the server is asked to leave something out."""
        return self._has_more and self._is_large

    def entries(self, queue: str, key: str, epoch: str, low: int, high: int) -> tuple[int, list[Any]]:
        """Return how many entries the log has above one sequence, up to another, and those that may be wanted."""
        step = LOOKED_AT if self.is_on else high - low
        count, found = 0, []
        for start in range(low, high, step):
            there, chosen = self._entries(queue, key, f"{epoch}-{start + 1}", f"{epoch}-{min(start + step, high)}")
            count += there
            found += chosen
        return count, found

    def _entries(self, queue: str, key: str, first: str, last: str) -> tuple[int, list[Any]]:
        if self.is_on:
            wanted, payload = msgspec.json.encode(self._chosen), "1" if self._payload else ""
            reply = self._run("choose_events", queue, key, first, last, payload, wanted)
            if reply is not None:
                return reply[0], reply[1]
        found = self._ask(queue, "XRANGE", key, first, last)
        self._weigh([len(value) for _, fields in found for value in fields[3:]], len(found))
        return len(found), found

    def records(self, queue: str, key: str, runs: Sequence[bytes]) -> Records:
        """Return the records of these runs that may be wanted."""
        step = LOOKED_AT if self.is_on else len(runs)
        parts = [runs[start : start + step] for start in range(0, len(runs), step)]
        return [record for part in parts for record in self._records(queue, key, part)]

    def _records(self, queue: str, key: str, runs: Sequence[bytes]) -> Records:
        if self.is_on and (reply := self._run("choose_jobs", queue, key, self._of_jobs(), "", *runs)) is not None:
            return _pairs(reply[1])
        return self._weighed(list(zip(runs, self._ask(queue, "HMGET", key, *runs), strict=True)))

    def page(self, queue: str, key: str, cursor: bytes, count: int) -> tuple[bytes, Records]:
        """Return the next cursor, and the records of a page that may be wanted; some may come twice."""
        if self.is_on:
            reply = self._run("choose_jobs", queue, key, self._of_jobs(), cursor, LOOKED_AT)
            if reply is not None:
                return reply[0], _pairs(reply[1])
        cursor, flat = self._ask(queue, "HSCAN", key, cursor, "COUNT", count)
        return cursor, self._weighed(_pairs(flat))

    def _weighed(self, found: Records) -> Records:
        sizes = [len(raw) for _, raw in found if raw is not None]
        self._weigh(sizes, len(sizes))
        return found

    def _weigh(self, sizes: Sequence[int], count: int) -> None:
        """Take down whether rows are large."""
        self._is_large = self._is_large or sum(sizes) > LARGE * count

    def _of_jobs(self) -> bytes:
        return msgspec.json.encode({**self._chosen, "payload": self._payload, "result": self._result})

    def _run(self, script: str, queue: str, key: str, *arguments: object) -> Any:
        """Return the reply of a script; `None` where this user or this server runs none."""
        try:
            return self._ask(queue, SCRIPT, _script(script), 1, key, *arguments)
        except StoreError as error:
            if not any(word in str(error) for word in _REFUSED):
                raise
            self._has_more = False
            return None


@cache
def _script(name: str) -> str:
    return Path(__file__).with_name(f"{name}.lua").read_text()


def _pairs(flat: Sequence[Any]) -> Records:
    return list(zip(flat[::2], flat[1::2], strict=True))


def _chosen(plan: ScanPlan) -> dict[str, object]:
    """Return what the scripts can choose by: bounds of numbers, words of a set, the beginning of ids."""
    found: dict[str, object] = {}
    for column in _NUMBERS[plan.table]:
        bounds = bounds_of(plan, column)
        if bounds != (0, MOST):
            found[column] = bounds
    if (states := plan.only("state")) is not None:
        found["state"] = {_LETTERS[state]: True for state in states if state in _LETTERS}
    if plan.table == "events" and (transitions := plan.only("transition")) is not None:
        found["transition"] = dict.fromkeys(transitions, True)
    prefix = next((each.value for each in plan.which if each.column == "id" and each.op == "starts"), "")
    return {**found, "prefix": prefix} if prefix else found


def bounds_of(plan: ScanPlan, column: str) -> tuple[int, int]:
    """Return the least and the most that a number may be: all of these numbers are whole, and none is below zero."""
    low, high = 0, MOST
    for each in (each for each in plan.which if each.column == column):
        if each.op in ("=", ">=", ">"):
            low = max(low, each.value + (each.op == ">"))
        if each.op in ("=", "<=", "<"):
            high = min(high, each.value - (each.op == "<"))
        if each.op == "in":
            low, high = max(low, min(each.value, default=MOST)), min(high, max(each.value, default=0))
    return min(low, MOST), high
