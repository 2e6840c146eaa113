"""Any ASGI framework whose application takes a lifespan: Starlette, FastAPI, Litestar."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from ..app.app import Holdfast
from ..worker import Worker

Lifespan = Callable[[object], AbstractAsyncContextManager[None]]
DRAIN = 2.0
"""How long a worker in a web process lets its jobs finish: a server that reloads should not wait longer."""
STATE = "holdfast"


def lifespan(app: Holdfast, *, worker: Worker | bool = False) -> Lifespan:
    """Return a lifespan for a web application: `FastAPI(lifespan=lifespan(jobs))`. In it the app is open.

    With `worker=True`, jobs also run in the web process, in its own event loop: for development, where one process is
    enough. When the server stops or reloads, what has not ended after two seconds is handed back. A worker with
    options of your own may stand there: `worker=jobs.worker(slots=4)`.
    """

    @asynccontextmanager
    async def living(application: object) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(app)
            if worker is not False:
                await stack.enter_async_context(app.worker(drain=DRAIN) if worker is True else worker)
            remember(application, app)
            yield

    return living


def remember(application: object, app: Holdfast) -> None:
    """Let requests find the app, in the state of the web application, if it has one."""
    state = getattr(application, "state", None)
    if state is not None:
        setattr(state, STATE, app)
