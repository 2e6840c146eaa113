"""The pump: one call at a time settles every ended attempt and claims as many jobs as there are free slots.

Idle, that is one job at lowest latency; loaded, it is many; no timer is needed to gather a batch, and a loop that is
busy with handlers gathers those that end meanwhile. Where the store
works in another process, a second call is pending while the handlers of the first run.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from ..core.bound import CROWD
from ..core.state import State
from ..errors import StoreError
from ..guard.page import now
from ..store.contract import Filter, Session, Store, Turn
from ..telemetry import traces
from .attempts.handler_services import CurrentSession
from .outcomes import Outcomes
from .recovery import Recovery
from .runner import DEAD, Runner
from .turns.capacity import ClaimRequest
from .turns.choice import NOTHING, ClaimChoice, PendingTurn, PendingTurns
from .turns.gathering import gather
from .turns.skipped_queues import FailingQueues, SuspectReserve, UnknownTasks
from .turns.wakeups import Alarm, WakeUps


class Pump:
    """Keep the slots full and the outcomes settled, for one session at a time."""

    def __init__(
        self,
        store: Store,
        current: CurrentSession,
        *,
        runner: Runner,
        outcomes: Outcomes,
        recovery: Recovery,
        pending: PendingTurns,
        choice: ClaimChoice,
        failing: FailingQueues,
        unknown: UnknownTasks,
        wake_ups: WakeUps,
        poll: float,
        claim_interval: float = 0.0,
    ) -> None:
        self._store, self._turns_at_once = store, store.turns_at_once
        self._current = current
        self._runner = runner
        self._outcomes = outcomes
        self._recovery = recovery
        self._pending = pending
        self._choice, self._round, self._capacity = choice, choice.round, choice.capacity
        self._failing = failing
        self._unknown = unknown
        self._wake_ups, self._alarm = wake_ups, wake_ups.alarm
        self._poll = poll
        self._claim_interval = claim_interval
        """Seconds from one claim to the next at least. A worker that waits them out is not woken: others are."""
        self._claimed_at = -math.inf  # the clock may begin when the machine starts
        self._reserve = SuspectReserve()
        self._loaded = False
        """The last turn for the slots found as many jobs as there was room for."""
        self._order_known = True
        """Which of the session's queues comes first is known from a reply."""
        self._listening = False
        self._offered = 0
        """The room with which the session is parked; one turn claims for a share of the free slots only."""
        self._given = 0
        """How many jobs came with wake-ups so far."""
        self._widen: Callable[[Session], Awaitable[Session]] | None = None
        self.idle = False
        """True while it sleeps and nothing runs."""
        self.empty = Alarm()
        """Rung when nothing runs and nothing is left to settle."""

    async def run(self, session: Session, on_evicted: Callable[[], None]) -> None:
        """Work until it no longer claims and nothing is left to settle, or the session is declared dead.

        `on_evicted` is called once it was declared dead.
        """
        self._order_known = len(session.queues) == 1
        self._loaded = False
        self._round.begin()
        pending = self._pending
        try:
            while self._has_work():
                if self._widen is not None and not pending:
                    session = await self._widened(session)
                if self._may_ask(session):
                    if self._outcomes.unsettled and self._runner.running:
                        await gather(self._has_gathered)
                        if not self._may_ask(session):
                            continue
                    turn = self._ask(session)
                    if turn.alone:
                        if not await self._apply(session, turn, on_evicted):
                            return
                        continue
                    pending.send(turn, self._on_turn_ended)
                    await _let_start(len(pending) > 1)
                elif (ended := pending.oldest_ended()) is not None:
                    if not await self._apply(session, ended, on_evicted):
                        return
                    await _let_start(len(pending) > 0)
                else:
                    if not pending:
                        self._round.begin()  # whatever rings may have made room, or have brought a job
                    self._listening = True
                    await self._alarm.wait(self._reserve.seconds(time.monotonic()))
                    self._listening = False
        finally:
            pending.cancel()
            self._runner.note_drained()

    def _has_work(self) -> bool:
        runner = self._runner
        return bool(
            runner.accepting
            or runner.running
            or self._outcomes.unsettled
            or self._recovery.unsure
            or self._pending
        )  # fmt: skip

    def widen(self, change: Callable[[Session], Awaitable[Session]]) -> None:
        """Have `change` return the session with more queues, before the next turn and while none is pending."""
        self._widen = change
        self._wake_ups.ask_again()

    async def _widened(self, session: Session) -> Session:
        assert self._widen is not None
        widen, self._widen = self._widen, None
        self._current.session = wider = await widen(session)
        self._order_known = self._order_known and wider is session
        self._round.begin()
        return wider

    # --- asking

    def _may_ask(self, session: Session) -> bool:
        """Allow one turn at a time; but under load, one more while the store works, when it is worth the call."""
        if self._widen is not None:  # pending turns must end first
            return False
        unsettled, unsure = self._outcomes.unsettled, self._recovery.unsure
        if not self._pending:
            due = unsettled or unsure or self._wake_ups.called or not self._order_known
            return bool(due) or self._wanted(session).room > 0
        if not self._loaded or unsure or len(self._pending) >= self._turns_at_once:
            return False
        if self._reserve.keeping:  # pending turns must end first: a suspect may have few jobs beside it
            return False
        request = self._wanted(session)
        return request.pool or len(unsettled) + request.kept >= self._choice.share

    def _has_gathered(self) -> bool:
        """Return whether no further end is worth waiting for: half of the slots would be idle, or no handler runs."""
        runner = self._runner
        return not runner.running or len(self._outcomes.unsettled) * 2 >= runner.slots

    def _ask(self, session: Session) -> PendingTurn:
        """Return the next turn, for which room is kept from now on."""
        if self._wake_ups.called:
            self._round.call()
        self._wake_ups.called = False
        request = self._wanted(session) if self._order_known else NOTHING
        if not request.room and self._round.asked:
            self._round.begin()
            request = self._wanted(session)
        if request.room:
            self._runner.drained.clear()
            if self._claim_interval:
                self._claimed_at = time.monotonic()
                self._wake_ups.ask_again_in(self._claim_interval)
        alone = not self._loaded or self._turns_at_once == 1 or self._reserve.keeping
        turn = PendingTurn(self._outcomes.take(), request, alone, self._given)
        turn.call = self._turn(session, turn)
        self._pending.add(turn)
        self._choice.sent(request)
        return turn

    def _wanted(self, session: Session) -> ClaimRequest:
        """Return what to claim next, beside what is being claimed."""
        runner, interval = self._runner, self._claim_interval
        if not runner.accepting or (interval and self._claimed_at + interval > time.monotonic()):
            return NOTHING
        if self._reserve.is_idle and not runner.suspects:
            return self._choice.request(self._served(session), runner.free)
        self._reserve.look(time.monotonic(), runner.suspects > 0)
        request = self._choice.request(self._reserve.queues(self._served(session)), runner.free)
        most = runner.most_beside_suspects()
        if most is None:
            return request
        return replace(request, room=max(0, min(request.room, most - len(runner.running) - self._pending.room)))

    def _served(self, session: Session) -> Sequence[str]:
        """Return the queues that may be asked now."""
        return self._unknown.served(self._failing.served(session.queues))

    async def _turn(self, session: Session, turn: PendingTurn) -> Turn:
        runner = self._runner
        if self._recovery.unsure:
            await self._recovery.take_stock(session, turn.settlements)
            turn.request = self._capacity.cut(turn.request, 0 if runner.suspects else runner.free)
        request, keeping = turn.request, self._reserve.keeping
        wants_suspect = turn.alone and self._reserve.wants(time.monotonic())
        asked_at = now()
        with traces.settling(turn.settlements):
            reply = await self._store.settle_and_claim(
                session,
                turn.settlements,
                request.queues,
                request.room,
                park=runner.accepting and not keeping and not self._unknown.resting and not self._claim_interval,
                idle=not runner.running and len(self._pending) <= 1 and not self._failing,
                held=len(runner.running) if wants_suspect else CROWD,
                only_suspects=keeping,
            )
        if not reply.evicted:
            self._current.renewed_at = asked_at
        if reply.claimed and now() - asked_at > session.lease_ms / 1000:
            # This worker was held up for longer than its lease: others may have these jobs by now, so ask once more.
            return replace(reply, claimed=[], unsure=True)
        return reply

    def _on_turn_ended(self) -> None:
        if self._listening:  # otherwise the loop looks by itself, and a bell would cost a turn for nothing
            self._alarm.ring()

    # --- applying

    async def _apply(self, session: Session, pending: PendingTurn, on_evicted: Callable[[], None]) -> bool:
        """Put what the turn brought to work. False: the loop is over."""
        try:
            turn = await pending.call
        except Exception as error:
            self._pending.remove(pending)
            self._runner.note_drained()
            self._pending.share_failure()
            pauses = not pending.shares_failure
            return await self._recovery.after_failure(session, pending.settlements, error, pauses)
        self._pending.remove(pending)
        self._recovery.answered()
        if turn.evicted:
            self._outcomes.put_back(pending.settlements)
            on_evicted()
            return False
        self._current.heard_at = time.monotonic()
        self._wake_ups.judge(any(job.company is None for job in turn.claimed))  # others may be woken for a suspect, too
        self._recovery.unsure = self._recovery.unsure or turn.unsure
        self._runner.apply(turn, pending.settlements)
        self._choice.handlers_wait = self._runner.handlers_wait
        self._choice.answered(pending.request, turn)
        self._note_suspects(pending.request, turn)
        self._runner.note_drained()
        if not pending.request.pool:
            self._loaded = 0 < pending.request.room <= len(turn.claimed)
        if self._order_known and (pending.request.pool or not self._pending):
            await self._find_hungry(session)
        if self._order_known and not self._pending:
            await self._rest(session, turn, pending)
        self._order_known = True
        return True

    def _note_suspects(self, request: ClaimRequest, turn: Turn) -> None:
        if not request.room or (self._reserve.is_idle and not turn.suspects and not self._runner.suspects):
            return
        kept, at = self._reserve.keeping, time.monotonic()
        self._reserve.look(at, self._runner.suspects > 0)
        self._reserve.told(at, request.queues, turn.suspects, len(turn.claimed) < request.room)
        if kept != self._reserve.keeping:  # other jobs are asked for now than before
            self._round.begin()

    async def _find_hungry(self, session: Session) -> None:
        """Find out which queues have jobs waiting that are too large for the room of the moment."""
        if self._capacity.is_one_slot(session.queues):
            self._round.hungry = []
            return
        served = [queue for queue in self._served(session) if queue not in self._choice.paused]
        blocked = self._capacity.blocked(self._choice.order(served), self._runner.free)
        self._round.hungry = [queue for queue in blocked if await self._has_waiting(queue)]

    async def _has_waiting(self, queue: str) -> bool:
        try:
            return bool((await self._store.jobs(Filter(queue=queue, states=(State.WAITING,)), limit=1)).jobs)
        except StoreError:
            return False  # the turn that follows finds that out, too

    # --- sleeping and waking

    async def _rest(self, session: Session, turn: Turn, pending: PendingTurn) -> None:
        """Sleep until there is something to do, exactly as long as nothing can be claimed."""
        runner, unsettled = self._runner, self._outcomes.unsettled
        # What was given while the reply was on its way has taken room of that with which the session parked.
        self._offered = pending.request.room - len(turn.claimed) - (self._given - pending.given)
        parked = self._offered > 0
        if not runner.running and not unsettled:
            self.empty.ring()
        called, unsure = self._wake_ups.called, self._recovery.unsure
        if not runner.accepting or unsettled or called or unsure or self._wanted(session).room > 0:
            return
        if (
            self._round.again or not parked
        ):  # the store would not wake this worker, unless it asks, and parks, once more
            self._round.begin()
            if self._wanted(session).room > 0:
                return
        kept_for = self._reserve.seconds(time.monotonic())
        self.idle = not runner.running
        if not self._round.asked:
            await self._alarm.wait(kept_for)
        else:
            wait = min(self._round.seconds(self._poll), self._poll if kept_for is None else kept_for)
            rung = await self._alarm.wait(wait)
            self._round.begin()
            self._wake_ups.polled = not rung and wait == self._poll and kept_for is None
        self.idle = False

    def on_wake_up(self) -> None:
        """Start what the store has claimed for this worker with its wake-up; or ask it, even with no slot free.

        Handlers that do not wait have ended when this goes on: then their turn is sent before the loop goes round.
        """
        self._wake_ups.heard()
        holds = self._alarm.hold()
        try:
            if not self._starts_given():
                self._wake_ups.ask_again()
        finally:
            if holds:
                self._alarm.let_go()

    def _starts_given(self) -> bool:
        """Start what came with the wake-up. False: there was nothing, or the store knows of no more room."""
        runner, session = self._runner, self._current.session
        if not runner.accepting or session is None:
            return False
        size = max(1, self._capacity.demand(session.queues[0]).slots)  # sessions of several queues are given nothing
        given = self._store.given(session, (runner.free - self._pending.slots) // size)
        if not given:
            return False
        self.idle = False
        self._given += len(given)
        self._offered -= len(given)
        room = runner.free - self._pending.slots - len(given) * size
        runner.start(given)
        return self._offered > 0 or room < size

    def lose_all(self) -> None:
        """Abort every handler and settle nothing, as the session is dead."""
        for entry in (*self._outcomes.take(), *self._pending.unsettled):
            self._outcomes.lose(entry.lease, DEAD)
        self._runner.lose_all()
        self._recovery.unsure = False


async def _let_start(busy: bool) -> None:
    """Let a call that was just made be written and handlers start. Otherwise two turns soon go in step, and the store
    and the handlers wait for each other."""
    for _ in range(2 if busy else 0):
        await asyncio.sleep(0)
