"""Workers: what they claim, how their attempts end, and how they vanish."""

from __future__ import annotations

from hypothesis import strategies as st

from ....core.chain import BlockerRef, ChainRef, continuation_id
from ....core.transition import Reply
from ....store.contract import (
    Complete,
    Continuation,
    Lease,
    NewJob,
    Session,
    Settlement,
    Turn,
)
from ..bench import QUEUE, TASK
from .base import MachineBase
from .step import IDS, KEYS, LEASE_MS, SLOTS, ends, often, picks, settlement, workers


class WorkSteps(MachineBase):
    """Claiming, settling, dying."""

    @often(7, worker=workers, room=st.integers(1, 4), only=st.sampled_from([False, False, False, True]))
    def claim(self, worker: int, room: int, only: bool) -> None:
        self._turn(self.sessions[worker], [], room, only)

    @often(7, worker=workers, pick=picks, how=ends, room=st.integers(0, 2))
    def settle(self, worker: int, pick: int, how: str, room: int) -> None:
        if not (busy := [session for session in self.sessions if self.held[session.id]]):
            return
        session = busy[worker % len(busy)]
        lease = self.held[session.id].pop(pick % len(self.held[session.id]))
        self._turn(session, [self._end(lease, how)], room)

    @often(2, worker=workers, hows=st.lists(ends, min_size=2, max_size=4))
    def settle_several(self, worker: int, hows: list[str]) -> None:
        if not (busy := [session for session in self.sessions if self.held[session.id]]):
            return
        session = busy[worker % len(busy)]
        entries = [self._end(self.held[session.id].pop(), how) for how in hows if self.held[session.id]]
        self._turn(session, entries, 0)

    def _end(self, lease: Lease, how: str) -> Settlement:
        """Return how an attempt ends; a job that goes on does so after another, every now and then."""
        if not how.startswith("go on"):
            return settlement(lease, how)
        self.payloads += 1
        run = self.model.runs.get(lease.run)
        first = self.model.first_of(run) if run else None
        chain = ChainRef(QUEUE, first.id, first.run) if first else ChainRef(QUEUE, lease.id, lease.run)
        position = run.position + 1 if run else 1
        after = IDS[self.payloads % len(IDS)] if how == "go on after" else None
        job = NewJob(
            id=continuation_id(chain, position, QUEUE),
            task=TASK,
            payload=b"%d" % self.payloads,
            key=KEYS[0] if self.payloads % 3 == 0 else None,
            delay_ms=1000 if how == "go on later" else None,
            blockers=(BlockerRef(QUEUE, after),) if after not in (None, chain.id) else (),
        )
        return Complete(lease, b"", then=Continuation(QUEUE, job))

    def _number(self, id: str) -> int:
        job = self._run(self.store.get(QUEUE, id))
        assert job is not None, f"{id} is not there, with which the chain went on"
        return job.run

    def _turn(self, session: Session, entries: list[Settlement], room: int, only_suspects: bool = False) -> None:
        """One call of a worker: everything is settled, and what there is room for is claimed."""
        held = len(self.held[session.id])
        turn = self._run(
            self.store.settle_and_claim(session, entries, [QUEUE], room, held=held, only_suspects=only_suspects)
        )
        if self._was_evicted(session, turn.evicted):
            return
        for entry, settled in zip(entries, turn.settled, strict=True):
            right = self.model.settle(self.now, session.id, entry, self._number)
            self.model.note_turns(self.now)
            assert (settled.reply, settled.state) in right, f"{settled}, and {right} was right"
            if settled.reply is Reply.OK:
                self.done = [*self.done[-9:], (session, entry)]
        if room:
            self._claimed(session, turn, room, held, only_suspects)

    def _claimed(self, session: Session, turn: Turn, room: int, held: int, only_suspects: bool) -> None:
        claimed = [(job.lease.id, job.lease.run, job.lease.attempt) for job in turn.claimed]
        left = self.model.claim(self.now, session.id, claimed, room, held=held, only_suspects=only_suspects)
        assert turn.suspects == ((QUEUE,) if left else ()), "whoever holds too many for a suspect hears of it"
        for job in turn.claimed:
            run = self.model.runs[job.lease.run]
            assert (job.payload, job.company, job.spared) == (run.payload, run.company, run.spared)
            self.held[session.id].append(job.lease)
        suspects = any(job.company is not None for job in turn.claimed)
        if len(turn.claimed) < room and not only_suspects and not suspects:
            self._slept_long_enough(turn.next_at_ms, len(self.held[session.id]))

    def _slept_long_enough(self, told: int | None, held: int) -> None:
        """A worker that sleeps until the instant it was told misses nothing."""
        wanted = self.model.next_at(self.now, held)
        assert wanted is None or (told is not None and told <= wanted), f"told {told}, and {wanted} was right"

    @often(3, pick=picks, worker=st.none() | workers, room=st.integers(0, 1), other=st.none() | ends)
    def settle_again(self, pick: int, worker: int | None, room: int, other: str | None) -> None:
        """Settle again: after a lost reply, for another session, or with another word."""
        if not self.done:
            return
        session, entry = self.done[-1 - pick % len(self.done)]
        if worker is not None:
            session = self.sessions[worker]
        self._turn(session, [self._end(entry.lease, other) if other else entry], room)

    @often(1, pick=picks, how=ends)
    def come_back_late(self, pick: int, how: str) -> None:
        if not (late := [session for session in self.crashed if self.held[session.id]]):
            return
        session = late[pick % len(late)]
        self._turn(session, [self._end(self.held[session.id].pop(), how)], 0)

    def _was_evicted(self, session: Session, evicted: bool) -> bool:
        assert evicted == (session.id in self.dead), "whoever was reaped hears it, and nobody else"
        if evicted:
            self.held[session.id] = []
            if session in self.sessions:
                self.sessions[self.sessions.index(session)] = self._run(self._session())
            return True
        self.heard[session.id] = self.now
        return False

    @often(2, worker=workers, what=st.sampled_from(["crash", "extend", "held"]))
    def live_or_die(self, worker: int, what: str) -> None:
        session = self.sessions[worker]
        if what == "crash":
            self.crashed.append(session)
            self.sessions[worker] = self._run(self._session())
        elif what == "extend":
            self._was_evicted(session, self._run(self.store.extend(session)).evicted)
        else:
            held = {(job.lease.run, job.lease.attempt) for job in self._run(self.store.held(session))}
            mine = {(run.run, run.counters.attempts) for run in self.model.active() if run.session == session.id}
            assert held == (set() if session.id in self.dead else mine)

    @often(2, worker=st.none() | workers)
    def reap(self, worker: int | None) -> None:
        caller = None if worker is None else self.sessions[worker].id
        reaped = self._run(self.store.reap(QUEUE, 1000, caller))
        assert reaped.shifted_ms == 0
        counts = [self.model.reap(self.now, session, SLOTS) for session in reaped.sessions]
        assert len(reaped.jobs) >= reaped.returned + reaped.failed, "each of them is named, and the cancelled, too"
        assert (reaped.returned, reaped.failed) == (sum(n for n, _ in counts), sum(n for _, n in counts))
        for id, heard in self.heard.items():
            silent = self.now - heard
            if id in reaped.sessions:
                assert id != caller
                assert silent >= LEASE_MS * 2 // 3, f"{id} was reaped after {silent} ms"
                self.dead.add(id)
            elif id not in self.dead and id != caller:
                assert silent < LEASE_MS, f"{id} was silent for {silent} ms and not reaped"
