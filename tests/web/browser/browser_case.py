"""A shop with a worker and the dashboard, in a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvicorn
from support import PATIENCE, until

from holdfast import Holdfast
from holdfast.web import create_app

T = TypeVar("T")


class Complaints(list[str]):
    """What the browser said in its console. A test that lets requests fail on purpose sets `expected`."""

    expected = False


class Served:
    """An app that is open, with a worker of its queues unless `worker=False`, behind the dashboard on a free port."""

    def __init__(self, app: Holdfast, *, worker: bool = True, **options: Any) -> None:
        self.app = app
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.do(app.open())
        self._worker = app.worker(slots=8, drain=1, grace=0.2, name="worker-1") if worker else None
        self._working = self._spawn(self._worker.run()) if self._worker else None
        self._options = options
        self.port = 0
        self.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)  # type: ignore[return-value]

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what a coroutine returns, run in the loop of the app."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE * 3)

    def start(self) -> None:
        """Serve, on the same port as before."""
        self.web = create_app(self.app, **self._options)
        config = uvicorn.Config(self.web, port=self.port, log_level="error", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._serving = self._spawn(self._server.serve())
        until(lambda: self._server.started or self._serving.done(), "the server serves")
        self.port = self._server.servers[0].sockets[0].getsockname()[1]

    def stop(self) -> None:
        """Serve no more; the app stays open."""
        self.web.state.site._stopping.set()
        self._server.should_exit = True
        self._serving.result(PATIENCE)  # type: ignore[call-arg]

    def close(self) -> None:
        """Everything is over."""
        self.stop()
        if self._worker is not None and self._working is not None:
            self.loop.call_soon_threadsafe(self._worker.stop)
            self._working.result(PATIENCE)  # type: ignore[call-arg]
        self.do(self.app.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE)

    def url(self, path: str = "/") -> str:
        """Return an address of the dashboard."""
        return f"http://127.0.0.1:{self.port}{path}"
