"""The meter of a sandbox: the time of a child that ends is counted once, whenever its parent waits for it."""

from __future__ import annotations

import pytest

from holdfast import Sandbox
from holdfast.executor.process import meter
from holdfast.executor.process.kernel import Consumed
from holdfast.executor.process.meter import Meter
from holdfast.executor.process.process_tree import SeenProcess

PARENT, CHILD = SeenProcess(1, "0"), SeenProcess(2, "5")


class World:
    """A process and its child, which has ended and is waited for just before one of the looks at either."""

    def __init__(self, moment: int) -> None:
        self._moment = moment
        self._looks = 0

    def _waited_for(self) -> bool:
        self._looks += 1
        return self._looks > self._moment

    def marked(self, mark: int, *, dead: bool) -> list[SeenProcess]:
        return [PARENT] if self._waited_for() else [PARENT, CHILD]

    def is_there(self, known: SeenProcess) -> bool:
        return not self._waited_for() or known == PARENT

    def consumed(self, pid: int) -> Consumed:
        gone = self._waited_for()
        if pid == CHILD.pid and gone:
            raise FileNotFoundError
        if pid == CHILD.pid:
            return Consumed(0.625, 1, alive=False)
        return Consumed(0.125 + (0.625 if gone else 0.0), 1, alive=True)


@pytest.mark.parametrize("moment", range(12))
def test_a_child_is_counted_once_whenever_its_parent_waits_for_it(moment: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(moment)
    for name in ("marked", "is_there", "consumed"):
        monkeypatch.setattr(meter, name, getattr(world, name))
    looking = Meter(PARENT.pid, Sandbox(cpu_seconds=1), 7, lambda: None)
    for _ in range(3):
        taken, alive = looking._look()
        assert (taken.cpu, alive) == (0.75, 0)
