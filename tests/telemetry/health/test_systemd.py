"""What is told to systemd, and when nothing is."""

from __future__ import annotations

import os
import socket
from contextlib import closing

import pytest

from holdfast.telemetry.health.systemd import Systemd


def test_without_systemd_nothing_is_told() -> None:
    systemd = Systemd({})
    systemd.tell("READY=1")
    systemd.watch(lambda: True)
    assert (bool(systemd), systemd.watchdog) == (False, None)


def test_what_it_gave_is_taken_from_the_environment() -> None:
    given = {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "2000000", "WATCHDOG_PID": str(os.getpid()), "HOME": "/"}
    systemd = Systemd(given)
    assert (bool(systemd), systemd.watchdog, given) == (True, 2.0, {"HOME": "/"})


def test_the_watchdog_of_another_process_is_not_ours() -> None:
    assert Systemd({"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "1"}).watchdog is None


def test_an_abstract_socket_is_told() -> None:
    name = f"holdfast-{os.getpid()}"
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as manager:
        manager.bind(f"\0{name}")
        Systemd({"NOTIFY_SOCKET": f"@{name}"}).tell("READY=1", "STATUS=well")
        assert manager.recv(100) == b"READY=1\nSTATUS=well"


def test_a_manager_that_cannot_be_reached_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    Systemd({"NOTIFY_SOCKET": "/nowhere/notify"}).tell("READY=1")
    assert "systemd_unreached: /nowhere/notify: " in caplog.text


def test_the_watchdog_hears_nothing_of_a_process_that_does_not_live() -> None:
    name = f"holdfast-watchdog-{os.getpid()}"
    answers = iter([True, False, False, True])
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as manager:
        manager.bind(f"\0{name}")
        manager.settimeout(20)
        systemd = Systemd({"NOTIFY_SOCKET": f"@{name}", "WATCHDOG_USEC": "10000"})
        with closing(systemd):
            systemd.watch(lambda: next(answers, False))
            assert [manager.recv(100) for _ in range(2)] == [b"WATCHDOG=1"] * 2
            manager.setblocking(False)
            with pytest.raises(BlockingIOError):
                manager.recv(100)
