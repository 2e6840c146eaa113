"""What a store answers that has no chains and blockers yet."""

from __future__ import annotations

from ..core.transition import Reply
from ..errors import ConfigError
from .contract import BlockerRecord, ChainPage, ChainRecord, Deleted, Filter


class Unchained:
    """Refuses chains and blockers with an error that says so."""

    async def complete_chain(
        self,
        queue: str,
        id: str,
        run: int | None,
        result: bytes,
        result_ttl_ms: int | None = None,
        request: str | None = None,
    ) -> Reply:
        raise _not_yet()

    async def delete_chain(self, queue: str, id: str, run: int | None = None, cascade: bool = False) -> Deleted:
        raise _not_yet()

    async def chain(self, queue: str, id: str, run: int | None = None) -> ChainRecord | None:
        raise _not_yet()

    async def chains(self, which: Filter, *, limit: int = 50, cursor: str | None = None) -> ChainPage:
        raise _not_yet()

    async def blockers(self, queue: str, id: str, run: int) -> list[BlockerRecord]:
        return []


def _not_yet() -> ConfigError:
    return ConfigError("this store has no chains and blockers yet; SQLite has")
