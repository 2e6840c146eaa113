"""`app.sync` in Django: in a worker or a web process as everywhere, in tests in the thread of the test."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import TypeVar

from asgiref.sync import async_to_sync

from ...app.app import Holdfast
from ...app.sync import Sync
from ...core.done import Done
from .test_mode import in_tests

T = TypeVar("T")
HOOKS_END_WITHIN = 10.0


class DjangoSync(Sync):
    """Runs coroutines of the app to their end; in tests so that what they do in the database is the test's own."""

    def __init__(self, app: Holdfast) -> None:
        super().__init__(app)
        self._hooks = app.hooks

    def __call__(self, awaitable: Awaitable[T]) -> T:
        """Return what the coroutine returns."""
        if isinstance(awaitable, Done) or not in_tests():
            return super().__call__(awaitable)
        try:
            self._refuse_in_loop()
        except BaseException:
            if isinstance(awaitable, Coroutine):
                awaitable.close()
            raise
        result: T = async_to_sync(self._opened)(awaitable)
        return result

    async def open_by_itself(self) -> None:
        """Open the app that nobody has opened, for all event loops of the process; tests have nothing to open."""
        if not in_tests():
            await self.home.open()

    async def _opened(self, awaitable: Awaitable[T]) -> T:
        try:
            await self._app.open()
        except BaseException:
            if isinstance(awaitable, Coroutine):
                awaitable.close()
            raise
        try:
            return await awaitable
        finally:
            await self._hooks.ended(HOOKS_END_WITHIN)  # whose loop ends with this call
            await self._app.close()

    def __enter__(self) -> Sync:
        return self if in_tests() else super().__enter__()
