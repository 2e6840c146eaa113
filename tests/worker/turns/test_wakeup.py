"""Whether wake-ups come is said once for each outage."""

from __future__ import annotations

from holdfast.app.hooks import Hooks
from holdfast.worker.turns.wakeups import WakeUps


def test_an_outage_is_told_once_and_its_end_once_whatever_single_polls_find_later() -> None:
    hooks, told = Hooks(), []
    hooks.add("*", lambda happening: told.append(happening.name))
    wake_ups = WakeUps(hooks)

    def poll() -> None:
        wake_ups.polled = True
        wake_ups.judge(True)

    for _ in range(5):
        poll()
    wake_ups.heard()
    for _ in range(20):
        poll()  # one wake-up that was still on its way
        wake_ups.heard()
    assert told == ["wakeup_degraded", "wakeup_restored"]
