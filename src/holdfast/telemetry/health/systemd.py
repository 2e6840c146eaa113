"""systemd's `Type=notify`: tell it when a worker is ready and stops, and that it lives, over a datagram socket."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, MutableMapping

log = logging.getLogger("holdfast")


class Systemd:
    """The service manager that started this process, if it wants to be told."""

    def __init__(self, environment: MutableMapping[str, str] | None = None) -> None:
        given = os.environ if environment is None else environment
        # taken away, so that no process which this one starts speaks for it
        self._address = given.pop("NOTIFY_SOCKET", "")
        usec, pid = given.pop("WATCHDOG_USEC", ""), given.pop("WATCHDOG_PID", "")
        mine = self._address and usec.isdigit() and pid in ("", str(os.getpid()))
        self.watchdog: float | None = int(usec) / 1_000_000 if mine else None
        """After so many seconds of silence it restarts the service; `None`: it does not."""
        self._stop = threading.Event()

    def __bool__(self) -> bool:
        return bool(self._address)

    def tell(self, *lines: str) -> None:
        """Send lines such as `READY=1`. A manager that cannot be reached is no reason to stop."""
        if not self._address:
            return
        path = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line:
                line.connect(path)
                line.sendall("\n".join(lines).encode())
        except OSError as error:
            log.warning("systemd_unreached: %s: %s", self._address, error)

    def watch(self, is_live: Callable[[], bool]) -> None:
        """Tell it from a thread, twice in its patience, that this process lives, as long as it does; until `close`."""
        if self.watchdog is None:
            return
        every = self.watchdog / 2

        def run() -> None:
            while not self._stop.wait(every):
                if is_live():
                    self.tell("WATCHDOG=1")

        threading.Thread(target=run, name="holdfast-watchdog", daemon=True).start()

    def close(self) -> None:
        """Tell it nothing more."""
        self._stop.set()
