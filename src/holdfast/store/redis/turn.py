"""One turn of a worker: what it settles and claims, in one call, or in a cluster in one for each queue."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence, Set

from ...core.limit import QueueSettings
from ..contract import Abort, Claimed, Complete, Lease, Session, Settled, Settlement, Turn
from ..rows import readable_settings
from .arguments.entry import Flat, in_groups
from .arguments.settlement import SETTLED, aborts_of, settlement_arguments
from .arguments.work import GivenFields, LeaveCall, PostedFields, QueueTurn, TurnCall
from .caller import RedisCaller
from .handover import HandOver
from .outage import Outages
from .record.view import claimed_all
from .visits import AT_ONCE, Visits

MOST_SETTINGS = 1000
_STALE = SETTLED[b"stale"]


class PartialTurn:
    """A turn while it is made of several replies."""

    def __init__(
        self,
        session: Session,
        settlements: Sequence[Settlement],
        order: list[str],
        room: int,
        held: int = 0,
        only_suspects: bool = False,
    ) -> None:
        self.session = session
        self.order = order if room > 0 else []
        self.room = room
        self._held = held
        self.only_suspects = only_suspects
        self.settled: list[Settled] = [_STALE] * len(settlements)
        self.entries: dict[str, list[tuple[int, Settlement]]] = {}
        for index, entry in enumerate(settlements):
            self.entries.setdefault(entry.lease.queue, []).append((index, entry))
        self.asked: dict[str, Sequence[tuple[int, Settlement]]] = {}
        self.claimed: list[Claimed] = []
        self.broken: list[tuple[str, int]] = []
        """What was claimed and cannot be read, by queue and run."""
        self.next_at: dict[str, int] = {}
        self.settings: dict[str, QueueSettings] = {}
        self.aborts: dict[str, list[tuple[Lease, Abort]]] = {}
        self.waiting: dict[str, bool] = {}
        self.dry: set[str] = set()
        """Queues that had fewer jobs than they were asked for, and in which the session of many queues is parked."""
        self.posted: list[tuple[str, Flat]] = []
        """Queues with messages for others, and the first of these."""
        self.now = 0
        self.suspects: list[str] = []
        self.late = self.more = self.evicted = self.unsure = False
        self.visits: Visits | None = None
        """What the session knows of its queues, if it has so many that it visits some of them."""

    @property
    def held(self) -> int:
        """How many jobs the session holds by now."""
        return self._held + len(self.claimed)

    def take(self, jobs: list[Claimed]) -> None:
        """Note that the session holds these, too: of a suspect it has no more company than that allows."""
        held = self.held
        most = [job.company - held for job in jobs if job.company is not None]
        self.room = min([self.room, *most]) - len(jobs)
        self.claimed += jobs

    def turn(self, given: list[Claimed], count: int) -> Turn:
        """Return the whole of it, with what was handed over before, and a word for each of the first settlements."""
        instants = [at for at in self.next_at.values() if at >= 0]
        return Turn(
            late=self.late,
            settled=self.settled[:count],
            claimed=given + self.claimed,
            next_at_ms=min(instants) if instants else None,
            now_ms=self.now,
            settings=self.settings if self.visits is None else self.visits.settings,
            more=self.more,
            suspects=tuple(self.suspects),
            aborts=[each for found in self.aborts.values() for each in found],
            unsure=self.unsure,
        )


class RedisTurns:
    """Makes turns."""

    def __init__(self, caller: RedisCaller, outages: Outages) -> None:
        self._caller = caller
        self._outages = outages
        self._in_cluster = caller.server.address.kind == "cluster"
        self._settings: dict[bytes, QueueSettings] = {}

    async def make(self, turn: PartialTurn, park: bool, handed: HandOver | None, idle: bool) -> None:
        """Settle and claim in the queues of the session; where it has many, in those that may have something."""
        if turn.visits is not None:
            await self._in_parts(turn, turn.visits, "dry" if park else "none")
        elif self._in_cluster and len(turn.session.queues) > 1:
            await self._one_by_one(turn, turn.session.queues, turn.order, "park" if park else "")
        else:
            parks = "" if not park else "idle" if idle and handed is not None else "park"
            await self._together(turn, turn.session.queues, _ranks(turn.order), parks, handed)
        if turn.evicted and len(turn.session.queues) > 1 and (turn.visits is not None or self._in_cluster):
            # Dead in one queue is dead in all: what was claimed elsewhere must not wait for the lease.
            leave = LeaveCall(session=turn.session.id)
            await self._caller.at_once([self._caller.call(queue, leave) for queue in turn.session.queues])

    async def _in_parts(self, turn: PartialTurn, visits: Visits, parks: str) -> None:
        """Settle, then go on to claim from the queues that may have jobs until there is no room.

        Every queue is visited once in a third of the lease, so that turns renew it.
        """
        due, settling = visits.due(), list(turn.entries)
        wanted = visits.open(turn.order)
        must = dict.fromkeys((*settling, *due))
        others = [queue for queue in wanted if queue not in must]
        part = [*must, *others[: visits.width]] or [visits.longest_ago]  # one at least: it must hear if it is alive
        behind = others[visits.width :]
        while part and not turn.evicted:
            rings, chosen = visits.rings, frozenset(part)
            order = [queue for queue in wanted if queue in chosen] if turn.room > 0 else []
            if self._in_cluster:
                await self._one_by_one(turn, part, order, parks)
            else:
                await self._together(turn, part, _ranks(order), parks)
            if not turn.evicted:
                self._note_visits(turn, visits, part, rings)
            if turn.room > 0 and behind:
                visits.width = min(2 * visits.width, AT_ONCE)
                part, behind = behind[: visits.width], behind[visits.width :]
            else:
                part, wanted = visits.stale()[:AT_ONCE], []
        if turn.room <= 0 and turn.claimed:
            visits.width = min(len({job.lease.queue for job in turn.claimed}) + 1, AT_ONCE)
        turn.next_at.update(visits.next_at)
        asked = frozenset(turn.order) if visits.suspects else frozenset()
        turn.suspects = [queue for queue in visits.suspects if queue in asked]

    def _note_visits(self, turn: PartialTurn, visits: Visits, queues: Sequence[str], rings: int) -> None:
        left = frozenset(turn.suspects)
        for queue in queues:
            visits.visited(queue, rings, queue in turn.dry, turn.next_at.get(queue, -1), queue in left)
        visits.told(turn.settings, turn.now)
        turn.settings, turn.suspects, turn.dry = {}, [], set()

    async def _together(
        self,
        turn: PartialTurn,
        queues: Sequence[str],
        ranks: Mapping[str, int],
        parks: str,
        handed: HandOver | None = None,
    ) -> None:
        """Settle these queues in one call, and claim from them in the order of their ranks."""
        session, caller = turn.session, self._caller
        call = TurnCall(
            shift=self._outages.shift,
            session=session.id,
            lease_ms=session.lease_ms,
            room=turn.room,
            held=turn.held,
            only_suspects=turn.only_suspects,
            parks=parks,
            seed=random.getrandbits(31) or 1,
            received=None if handed is None else handed.received,
        )
        shares: list[int] = []
        settled: Flat = []
        following: set[str] = set()
        for queue in queues:
            entries = turn.asked[queue] = turn.entries.pop(queue, ())
            shares += (ranks.get(queue, 0), len(entries))
            for _, entry in entries:
                settled += settlement_arguments(entry)
                if type(entry) is Complete and entry.then is not None:
                    following.add(entry.then.queue)
        near = await self._near(following.difference(session.queues)) if following else []
        keys = [caller.keys.declared(queue) for queue in queues]
        claims = turn.room > 0 and any(rank > 0 for rank in ranks.values())
        reply = await caller.call_at(
            keys, call, (*shares, *settled, *near), repeat=not claims, notifies=bool(turn.settled)
        )
        turn.now = reply.now
        if reply.queues is None:
            turn.evicted = True
            return
        turn.late = turn.late or bool(reply.late)
        for queue, part in zip(queues, reply.queues, strict=True):
            self._note(turn, queue, QueueTurn._make(part))
        while turn.broken:
            queue, run = turn.broken.pop()
            await caller.set_aside(queue, [run])
        turn.posted += ((name.decode(), flat) for name, flat in in_groups(reply.posted or [], PostedFields))
        if handed is not None and reply.given is not None:
            handed.catch_up(GivenFields._make(reply.given), turn.now)
            if handed.broken:
                broken, handed.broken = handed.broken, []
                await caller.set_aside(handed.queue, broken)

    async def _near(self, queues: Set[str]) -> Flat:
        """Return other queues in which chains continue, as arguments; in a cluster they are sent messages."""
        if self._in_cluster or not queues:
            return []
        names = sorted(queues)
        await self._caller.know(*names)
        return [part for queue in names for part in (self._caller.keys.declared(queue), queue)]

    def _note(self, turn: PartialTurn, queue: str, part: QueueTurn) -> None:
        for (index, _), word in zip(turn.asked.pop(queue), part.words, strict=True):
            turn.settled[index] = SETTLED[word]
        if part.claimed:
            jobs, broken = claimed_all(queue, part.claimed, turn.now)
            turn.take(jobs)
            turn.broken += ((queue, run) for run in broken)
        turn.next_at[queue] = part.next_at
        turn.more = turn.more or bool(part.more)
        if part.suspects:
            turn.suspects.append(queue)
        turn.settings[queue] = self._decoded(queue, part.settings)
        turn.aborts[queue] = aborts_of(queue, part.aborts)
        turn.waiting[queue] = bool(part.waiting)
        (turn.dry.add if part.waiting == 0 else turn.dry.discard)(queue)
        if part.posted:
            turn.posted.append((queue, part.posted))

    def _decoded(self, queue: str, text: bytes) -> QueueSettings:
        settings = self._settings.get(text)
        if settings is None:
            if len(self._settings) > MOST_SETTINGS:
                self._settings.clear()
            settings = self._settings[text] = readable_settings(queue, text)
        return settings

    async def _one_by_one(self, turn: PartialTurn, queues: Sequence[str], order: Sequence[str], parks: str) -> None:
        """The same in a cluster: all queues settle at once, and those that have something are claimed from in order."""
        ranks = dict.fromkeys(order, -1) if turn.room else {}
        first = order[0] if ranks else None
        if first is not None:
            await self._together(turn, [first], {first: 1}, parks)
        others = [queue for queue in queues if queue != first]
        await self._caller.at_once([self._together(turn, [queue], ranks, parks) for queue in others])
        for queue in order[1:]:
            if turn.room > 0 and turn.waiting.get(queue) and not turn.evicted:
                await self._together(turn, [queue], {queue: 1}, parks)


def _ranks(order: Sequence[str]) -> dict[str, int]:
    """Return the places of queues from which to claim."""
    return dict(zip(order, range(1, len(order) + 1), strict=True))
