"""One port for several worker processes: it asks each of them on a socket of its own, and gives one answer."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from ..store.contract import Store
from ..telemetry.health.health import LoopBeat
from ..telemetry.health.http import JSON, HttpRequest, HttpResponse, Route
from ..telemetry.health.port import Port
from ..telemetry.health.ports import PortOptions
from ..telemetry.health.routes import LIVE, METRICS, READY, STORE_METRICS, metrics_route
from ..telemetry.metrics.exposition import OPEN, PLAIN, wants_open
from ..telemetry.metrics.store import TwinMeter

PATIENCE = 2.0
"""Seconds that a process has to answer."""
STUCK = 10.0
"""Seconds without a move of the keeper's own loop, after which it is not live."""
_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ([^ ]+)", re.DOTALL)


class ChildAnswer(msgspec.Struct, frozen=True):
    """What one process answered; code 0: nothing."""

    number: int
    code: int = 0
    body: str = ""


class ChildReport(msgspec.Struct, frozen=True):
    """What counts of a process's own report of its health."""

    reasons: tuple[str, ...] = ()


class CombinedPort:
    """The port of all worker processes together. `is_draining` says whether they were told to stop."""

    def __init__(self, options: PortOptions, count: int, store: Store, is_draining: Callable[[], bool]) -> None:
        self._count = count
        self._is_draining = is_draining
        self._folder = tempfile.TemporaryDirectory(prefix="holdfast-")
        self._twin = TwinMeter(store)
        self._pulse = LoopBeat()
        probes: dict[str, Route] = {LIVE: self._live, READY: self._ready}
        metrics: dict[str, Route] = {METRICS: self._metrics, STORE_METRICS: metrics_route(self._twin.samples)}
        served = [
            (address, {**(metrics if has_metrics else {}), **(probes if has_health else {})})
            for address, has_metrics, has_health in options.addresses()
        ]
        self.port = Port(served, [self._twin.close])

    def path(self, number: int) -> str:
        """Return where a process listens."""
        return str(Path(self._folder.name) / f"{number}.sock")

    def __enter__(self) -> CombinedPort:
        self.port.open()
        self._pulse.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._pulse.stop()
        self.port.close()

    async def stuck(self) -> list[str]:
        """Return which processes say that their event loops are stuck."""
        answers = await self._ask(LIVE)
        return [f"process {each.number}: {text}" for each in answers for text in _reasons(each, False)]

    # --- answers

    async def _live(self, request: HttpRequest) -> HttpResponse:
        """Say that it lives unless this loop, or that of a process which can be asked, is stuck."""
        reasons = await self.stuck()
        if self._pulse.moved_ago > STUCK:
            reasons.append(f"the event loop of the keeper has not moved for {self._pulse.moved_ago:.0f} s")
        return _report(self._count, reasons)

    async def _ready(self, request: HttpRequest) -> HttpResponse:
        """Say that it is ready when all processes are."""
        answers = await self._ask(READY)
        reasons = [f"process {each.number}: {text}" for each in answers for text in _reasons(each, True)]
        return _report(self._count, ["the worker processes are stopping"] if self._is_draining() else reasons)

    async def _metrics(self, request: HttpRequest) -> HttpResponse:
        """Return the metrics of all processes, each with a label `process`."""
        open = wants_open(request.headers.get("accept", ""))
        answers = await self._ask(METRICS, OPEN if open else PLAIN)
        text = merged((each.number, each.body) for each in answers if each.code == 200)
        return HttpResponse((text + ("# EOF\n" if open else "")).encode(), OPEN if open else PLAIN)

    async def _ask(self, path: str, accept: str = "*/*") -> Sequence[ChildAnswer]:
        return await asyncio.gather(*(self._ask_one(number, path, accept) for number in range(1, self._count + 1)))

    async def _ask_one(self, number: int, path: str, accept: str) -> ChildAnswer:
        try:
            async with asyncio.timeout(PATIENCE):
                reader, writer = await asyncio.open_unix_connection(self.path(number))
                try:
                    writer.write(f"GET {path} HTTP/1.1\r\nAccept: {accept}\r\n\r\n".encode())
                    head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return ChildAnswer(number)
        return ChildAnswer(number, int(head.split(b" ", 2)[1]), body.decode())


def _reasons(answer: ChildAnswer, must_answer: bool) -> list[str]:
    if answer.code == 0:
        return ["it does not answer: it starts, or has died and is started anew"] if must_answer else []
    if answer.code in (200, 503):
        return list(msgspec.json.decode(answer.body, type=ChildReport).reasons)
    return [f"it answers with {answer.code}"]


def _report(count: int, reasons: list[str]) -> HttpResponse:
    told = {"status": "unavailable" if reasons else "ok", "reasons": reasons, "processes": count}
    return HttpResponse(msgspec.json.encode(told) + b"\n", JSON, 503 if reasons else 200)


def merged(texts: Iterable[tuple[int, str]]) -> str:
    """Return the metrics of several processes as one text: each sample has the number of its process as a label."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for number, text in texts:
        family = ""
        for line in text.split("\n"):
            if line.startswith("# ") and line != "# EOF":
                family = line.split(" ", 3)[2]
                known = heads.setdefault(family, [])
                known += [line] if line not in known else []
            elif line and line != "# EOF":
                samples.setdefault(family, []).append(_labelled(line, number))
    return "".join(f"{line}\n" for family in heads for line in (*heads[family], *samples.get(family, ())))


def _labelled(line: str, number: int) -> str:
    found = _SAMPLE.fullmatch(line)
    assert found is not None, line
    name, labels, value = found.groups()
    return f'{name}{{process="{number}"{"," + labels if labels else ""}}} {value}'
