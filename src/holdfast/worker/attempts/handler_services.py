"""What a handler may ask of its worker while it runs: its limits, transactions, blockers, and where progress goes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from ...app.registry import Registry
from ...app.task import AnyTask
from ...core.job import Progress
from ...core.policy import Policy, Retry
from ...core.transition import Reply
from ...executor.handler_transaction import HandlerTransaction
from ...handler.continuation import Blocker
from ...store.contract import BlockerRecord, Claimed, Lease, Session, Store
from ...telemetry import traces

log = logging.getLogger("holdfast")


@dataclass
class CurrentSession:
    """The session under which a worker works now, and when the store was heard."""

    session: Session | None = None
    """`None` before its first one."""
    heard_at: float = 0.0
    """When the store last answered, by `time.monotonic`."""
    renewed_at: float = 0.0
    """When the latest turn was sent that renewed the lease, by the clock that processes share."""


class HandlerServices:
    """What all attempts of a worker share: its store and session, and the policies in force as it last read them."""

    def __init__(self, store: Store, registry: Registry, current: CurrentSession) -> None:
        self._store = store
        self._registry = registry
        self._current = current
        self._loop = asyncio.get_running_loop()
        self._policies: dict[str, Mapping[str, Policy]] = {}

    @property
    def session(self) -> Session:
        """The session under which attempts run."""
        assert self._current.session is not None
        return self._current.session

    @property
    def worker(self) -> str:
        """The worker's name."""
        session = self._current.session
        return session.name if session is not None else ""

    async def refresh(self, queue: str) -> None:
        """Read the policies of the queue, which operators may have changed."""
        self._policies[queue] = await self._store.policies(queue)

    def retry(self, claimed: Claimed) -> Retry:
        """Return what limits a job: what its caller set, or its task's policy; what is permanent, the code says."""
        if claimed.overrides is not None and claimed.overrides.retry is not None:
            return claimed.overrides.retry
        policy = self._policies.get(claimed.lease.queue, {}).get(claimed.task or "")
        handler = self._registry.handler(claimed.lease.queue, claimed.task)
        if handler is None:
            return policy.retry if policy is not None else Retry()
        declared: Retry = handler.setting("retry")
        return replace((policy or self._registry.policy(handler)).retry, permanent=declared.permanent)

    async def progress(self, lease: Lease, progress: Progress | None, checkpoint: bytes | None) -> Reply:
        """Store the progress or the checkpoint of a running job."""
        return await self._store.progress(self.session, lease, progress, checkpoint)

    def transaction(self, handler: AnyTask) -> HandlerTransaction:
        """Return the transaction in which an attempt may write and complete its job."""
        atomic = handler.setting("completion") == "atomic"
        return HandlerTransaction(self._store, self.session, handler, self._loop, atomic=atomic)

    async def blockers(self, lease: Lease) -> list[Blocker]:
        """Return what a job waited for, decoded by the tasks that gave the results."""
        return [self._registry.blocker(each) for each in await self.blocker_records(lease)]

    async def blocker_records(self, lease: Lease) -> list[BlockerRecord]:
        """Return what a job waited for, as the store keeps it."""
        return await self._store.blockers(lease.queue, lease.id, lease.run)

    async def link_blockers(self, span: traces.ProcessSpan, lease: Lease) -> None:
        """Link the span of an attempt to what its job waited for; what the store does not tell is left out."""
        try:
            await traces.link_blockers(span, self._store, lease)
        except Exception as error:
            log.warning("blockers_unlinked: %s/%s: its span has no links to them: %s", lease.queue, lease.id, error)
