"""Schedules live: looked at, added, changed, paused, triggered and removed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import cast

from msgspec.structs import replace

from ..app.bulk import Call
from ..app.registry import Registry
from ..client import Handle, new_id
from ..core import schedule as core
from ..core.action import scheduled
from ..core.duration import Duration
from ..core.schedule import CatchUp, Overlap, Plan, Schedule
from ..core.tick import Spec
from ..core.transition import Reply
from ..core.word import check_words
from ..errors import ConfigError, ScheduleMissing, StoreBusy
from ..store.contract import ScheduleChange, ScheduleRow, Store
from .fire import jobs_of, sent
from .plan import ScheduleRules, changed_fields, plan_of, stored_names
from .row import change_of, read, readable

log = logging.getLogger("holdfast")
MOST_TRIES = 50
Decide = Callable[[Schedule | None, int], Schedule]


class Schedules:
    """Made by `app.schedules`. A schedule is known by its queue and name; the name alone will do while it is one's."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.bells: set[Callable[[], object]] = set()
        """Rung when this process has changed a schedule, so that its own workers need not find out by themselves."""

    @property
    def _store(self) -> Store:
        return self._registry.client.store

    # --- looking

    async def list(self, queue: str | None = None) -> list[Schedule]:
        """Return every schedule that can be read here, by queue and name."""
        check_words(queue=queue)
        return [each for row in await self._store.schedules(queue) if isinstance(each := readable(row), Schedule)]

    async def get(self, name: str, *, queue: str | None = None) -> Schedule:
        """Return a schedule as it stands."""
        return read(await self._find(name, queue))

    async def _find(self, name: str, queue: str | None) -> ScheduleRow:
        check_words(schedule=name, queue=queue)
        found = await self._store.schedules(queue, name)
        if not found:
            where = "" if queue is None else f" in queue {queue!r}"
            raise ScheduleMissing(f"there is no schedule {name!r}{where}; see `holdfast schedules list`")
        if len(found) > 1:
            queues = ", ".join(row.queue for row in found)
            raise ConfigError(f"there is a schedule {name!r} in several queues ({queues}): give queue=")
        return found[0]

    # --- changing

    async def add(
        self,
        name: str,
        spec: Spec,
        call: Call[object],
        *,
        catch_up: CatchUp = "one",
        limit: int = 100,
        grace: Duration = 60.0,
        overlap: Overlap = "allow",
    ) -> Schedule:
        """The schedule is there: each of its ticks enqueues the call. One that is there just so is left alone."""
        plan = plan_of(name, spec, call, catch_up=catch_up, limit=limit, grace=grace, overlap=overlap)
        wanted = core.fields(plan)

        def decide(found: Schedule | None, now_ms: int) -> Schedule:
            if found is not None and (found.declared is not None or found.plan != plan):
                raise ConfigError(
                    f"there is a schedule {name!r} in queue {call.queue!r} already: change it, or remove it"
                )
            return found or _coming(core.change(Schedule(queue=call.queue, name=name), wanted, (), now_ms))

        return await self._decided(call.queue, name, decide, "add")

    async def change(
        self,
        name: str,
        *,
        queue: str | None = None,
        spec: Spec | None = None,
        call: Call[object] | None = None,
        catch_up: CatchUp | None = None,
        limit: int | None = None,
        grace: Duration | None = None,
        overlap: Overlap | None = None,
        clear: Iterable[str] = (),
    ) -> Schedule:
        """What is given holds from now on, above what the code declares; what is cleared is as declared again."""
        row = await self._find(name, queue)
        rules = {"catch_up": catch_up, "limit": limit, "grace": grace, "overlap": overlap}
        given = cast(ScheduleRules, {each: value for each, value in rules.items() if value is not None})
        cleared = stored_names(clear)

        def decide(found: Schedule | None, now_ms: int) -> Schedule:
            if found is None:
                raise ScheduleMissing(f"schedule {name!r} was removed meanwhile")
            changed = core.change(found, changed_fields(found, spec, call, given), cleared, now_ms)
            return changed if spec is None else _coming(changed)

        return await self._decided(row.queue, name, decide, "change")

    async def pause(self, name: str, *, queue: str | None = None) -> Schedule:
        """Nothing fires until `resume`; workers that declare it again do not change that."""
        return await self._pause(name, queue, True)

    async def resume(self, name: str, *, queue: str | None = None) -> Schedule:
        """It fires again, from its next tick on."""
        return await self._pause(name, queue, False)

    async def _pause(self, name: str, queue: str | None, paused: bool) -> Schedule:
        def decide(found: Schedule | None, now_ms: int) -> Schedule:
            if found is None:
                raise ScheduleMissing(f"schedule {name!r} was removed meanwhile")
            return core.pause(found, paused, now_ms)

        place = (await self._find(name, queue)).queue
        return await self._decided(place, name, decide, "pause" if paused else "resume")

    async def remove(self, name: str, *, queue: str | None = None) -> Schedule | None:
        """The schedule is gone; return what it was, `None` where that cannot be read here.

        One that code declares comes back with the next worker that does: pause that.
        """
        row = await self._find(name, queue)
        for _ in range(MOST_TRIES):
            change = ScheduleChange(
                queue=row.queue, name=name, expected=row.revision, revision=new_id(), action=scheduled(name, "remove")
            )
            if (await self._store.put_schedule(change)).reply is not Reply.STALE:
                was = readable(row)
                return was if isinstance(was, Schedule) else None
            row = await self._find(name, row.queue)
        raise _contended(row.queue, name)

    async def trigger(self, name: str, *, queue: str | None = None) -> Handle[object]:
        """One more job of the schedule is enqueued now, by its rule for overlaps; its ticks go on as before."""
        client, row = self._registry.client, await self._find(name, queue)
        for _ in range(MOST_TRIES):
            schedule = read(row)
            jobs, conflict = jobs_of(schedule, [None])
            if client.producers.middleware:
                jobs = [await client.producers.alone(row.queue, each, "schedule") for each in jobs]
            change = ScheduleChange(
                queue=row.queue, name=name, expected=row.revision, revision=new_id(), next_at_ms=row.next_at_ms,
                body=row.body, action=scheduled(name, "trigger"),
            )  # fmt: skip
            fired = await sent(self._store, change, jobs, conflict)
            if fired.reply is Reply.OK:
                client.tell_enqueued(row.queue, jobs, fired.answers)
                return Handle(client, row.queue, fired.answers[0], self._registry.decoder(row.queue, schedule.task))
            row = await self._find(name, row.queue)
        raise _contended(row.queue, name)

    async def declare(self, queues: Iterable[str], *, overrules: bool = False) -> None:
        """What the code declares of these queues is in the store, unless a higher version is there already.

        `overrules`: also where the same version is there with other values.
        """
        declared = {place: plan for place, plan in self._registry.schedules.items() if place[0] in queues}
        for queue in dict.fromkeys(queue for queue, _ in declared):
            rows = {row.name: row for row in await self._store.schedules(queue)}
            for name, plan in ((name, plan) for (place, name), plan in declared.items() if place == queue):
                found = readable(rows[name]) if name in rows else None
                if isinstance(found, ConfigError):  # by a newer worker, say, which knows what it is doing
                    log.error("schedule_conflict: %s; this worker leaves it alone", found)
                    continue
                decide = _declaring(queue, name, plan, self._registry.version, overrules)
                if found is None or decide(found, 0) != found:
                    await self._decided(queue, name, decide, "declare")

    async def _decided(self, queue: str, name: str, decide: Decide, word: str) -> Schedule:
        """Return the schedule as `decide` wants it, written if it was not changed meanwhile, else decided again.

        The log tells of it by the word, but for one that code declares for the first time.
        """
        store = self._store
        for _ in range(MOST_TRIES):
            row = next(iter(await store.schedules(queue, name)), None)
            found = None if row is None else read(row)
            wanted = decide(found, await store.now_ms())
            if wanted == found:
                return wanted
            wanted = replace(wanted, revision=new_id())
            action = None if word == "declare" and found is None else scheduled(name, word)
            change = change_of(wanted, row.revision if row else None, action)
            if (await store.put_schedule(change)).reply is Reply.OK:
                self._ring()
                return wanted
        raise _contended(queue, name)

    def _ring(self) -> None:
        for bell in tuple(self.bells):
            bell()


def _declaring(queue: str, name: str, plan: Plan, version: int, overrules: bool) -> Decide:
    new = Schedule(queue=queue, name=name)
    return lambda found, now_ms: core.declare(found or new, plan, version, now_ms, overrules=overrules)


def _coming(schedule: Schedule) -> Schedule:
    """Return a schedule that has a tick to come, or raise: one that never fires again is a slip."""
    if schedule.next_at_ms is None and not schedule.paused:
        raise ConfigError(f"schedule {schedule.name!r}: {schedule.spec} has passed; to run it now, enqueue the call")
    return schedule


def _contended(queue: str, name: str) -> StoreBusy:
    return StoreBusy(f"schedule {name!r} of queue {queue!r} was changed by others over and over; try again")
