"""Who hears signals: what only listens does not keep a signal from those that were there before."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from holdfast.worker.signals import SignalListeners


@pytest.fixture
def before() -> Iterator[list[int]]:
    """What a handler of SIGTERM hears that was there before."""
    told: list[int] = []
    old = signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
    yield told
    signal.signal(signal.SIGTERM, old)


def test_a_signal_that_only_a_witness_hears_does_what_it_did_before(before: list[int]) -> None:
    """As one that comes while a worker opens its store, and the command would say a word at Ctrl-C."""
    seen: list[int] = []
    with SignalListeners().heard(seen.append, acts=False):
        os.kill(os.getpid(), signal.SIGTERM)
    assert (seen, before) == ([signal.SIGTERM], [signal.SIGTERM])


def test_a_signal_that_is_acted_on_is_not_passed_to_the_old_handler(before: list[int]) -> None:
    seen: list[int] = []
    acted: list[int] = []
    listeners = SignalListeners()
    with listeners.heard(seen.append, acts=False), listeners.heard(acted.append):
        os.kill(os.getpid(), signal.SIGTERM)
    assert (seen, acted, before) == ([signal.SIGTERM], [signal.SIGTERM], [])
    os.kill(os.getpid(), signal.SIGTERM)
    assert before == [signal.SIGTERM]
