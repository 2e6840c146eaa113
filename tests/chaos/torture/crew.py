"""The processes of a torture: started, watched, started again, and gone at the end, whatever happens."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from .place import Place, die_with_parent
from .plan import Plan
from .proxy import Way

CHAOS = Path(__file__).parent.parent


class Actor:
    """One process, which is started again whenever it has ended by a fault."""

    def __init__(self, plan: Plan, role: str, number: int, url: str, way: Way | None) -> None:
        self.role, self.number, self.way = role, number, way
        self.lives = 0
        self.expected = False
        """It was told to end, and is not started again."""
        self._plan, self._url = plan, url
        self.process: subprocess.Popen[bytes] | None = None
        self._earlier: list[subprocess.Popen[bytes]] = []
        """Its processes of before. They are not waited for until the end, so that nobody else gets their numbers."""

    @property
    def name(self) -> str:
        return f"{self.role}{self.number}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.exit_code is None

    @property
    def exit_code(self) -> int | None:
        """How its process ended, which is left as it is; `None` while it runs."""
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return None if ended is None else ended.si_status

    def start(self) -> None:
        """It runs, in a session of its own."""
        arguments = {
            "worker": [self.name], "producer": [str(self.number), str(self.lives)], "caller": [str(self.lives)],
            "reader": [],
        }[self.role]  # fmt: skip
        environment = {
            **os.environ, "TORTURE": self._plan.folder, "TORTURE_URL": self._url, "TORTURE_ROLE": self.role,
            "PYTHONPATH": os.pathsep.join((str(CHAOS), str(CHAOS.parent), os.environ.get("PYTHONPATH", ""))),
        }  # fmt: skip
        self.lives += 1
        if self.process is not None:
            self._earlier.append(self.process)
        with (self._plan.path / "logs" / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"torture.{self.role}", *arguments],
                env=environment, stdout=log, stderr=log, start_new_session=True, cwd=CHAOS, preexec_fn=die_with_parent,
            )  # fmt: skip

    def signal(self, number: int) -> None:
        """The process has got a signal, if it still runs."""
        os.kill(self.pid, number)  # which is still its own, as nobody has waited for it

    def children(self) -> list[int]:
        """Return the processes that it has started."""
        with suppress(OSError):
            return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]
        return []

    def wait(self, patience: float) -> str | None:
        """Return its name if it still runs when the patience is over."""
        deadline = time.monotonic() + patience
        while self.alive:
            if time.monotonic() > deadline:
                return self.name
            time.sleep(0.05)
        return None

    def close(self) -> None:
        """It is gone, and what it started with it."""
        for process in (*self._earlier, *([self.process] if self.process else [])):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Crew:
    """All actors of one torture."""

    def __init__(self, plan: Plan, place: Place) -> None:
        self._plan, self._place = plan, place
        self.actors: list[Actor] = []
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Everybody is at work."""
        wanted = {"reader": 1, "worker": self._plan.workers, "producer": self._plan.producers, "caller": 1}
        for role, count in wanted.items():
            for number in range(count):
                self.actors.append(await self._actor(role, number))
                self.actors[-1].start()
        self._watching = asyncio.create_task(self._watch())

    async def _actor(self, role: str, number: int) -> Actor:
        """The reader goes straight to the store: it is an instrument, and no part of what is tortured."""
        way = None
        if self._place.port is not None and role != "reader":
            way = await Way(self._place.port).open()
        return Actor(self._plan, role, number, self._place.url(way.port if way else None), way)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(0.2)
            for actor in self.actors:
                finished = actor.role == "producer" and actor.exit_code == 0
                if not actor.alive and not actor.expected and not finished:
                    actor.start()

    def of(self, role: str) -> list[Actor]:
        """Return the actors of a role."""
        return [actor for actor in self.actors if actor.role == role]

    async def ended(self, role: str, patience: float, number: int | None = None) -> list[str]:
        """Everybody of the role has been told to end; return who has not, in time."""
        for actor in self.of(role):
            actor.expected = True
            if number is not None:
                actor.signal(number)
        waiting = [asyncio.to_thread(actor.wait, patience) for actor in self.of(role)]
        return [name for name in await asyncio.gather(*waiting) if name]

    async def close(self) -> None:
        """Nobody is left."""
        if self._watching is not None:
            self._watching.cancel()
        for actor in self.actors:
            actor.close()
            if actor.way is not None:
                await actor.way.close()
