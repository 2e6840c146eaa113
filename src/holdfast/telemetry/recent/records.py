"""The records of one store: of all jobs, each queue, each task. The longest unused gives way to a new one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from .digest import Digest, Where
from .traffic import Slot, TrafficRecord

MOST_QUEUES = 200
MOST_TASKS = 200
Name = TypeVar("Name")
TaskName = tuple[str, str | None]


class TrafficRecords:
    """Adds up what happened, for all jobs and by queue and task."""

    def __init__(self) -> None:
        self.all = TrafficRecord()
        self.queues: dict[str, TrafficRecord] = {}
        self.tasks: dict[TaskName, TrafficRecord] = {}

    def add(self, page: Digest, newest_s: int) -> None:
        """Add a page of events."""
        cached: dict[Where, list[Slot]] = {}

        def slots(where: Where) -> list[Slot]:
            found = cached.get(where)
            if found is None:
                found = cached[where] = list(self._slots(where, newest_s))
            return found

        for (where, kind), count in page.counts.items():
            for slot in slots(where):
                slot.counts[kind] += count
        for (where, bucket), count in page.waits.items():
            for slot in slots(where):
                slot.waits[bucket] = slot.waits.get(bucket, 0) + count
        for (where, bucket), count in page.runs.items():
            for slot in slots(where):
                slot.runs[bucket] = slot.runs.get(bucket, 0) + count
        for where, longest in page.longest_wait.items():
            for slot in slots(where):
                slot.saw_wait(longest)
        for where, longest in page.longest_run.items():
            for slot in slots(where):
                slot.saw_run(longest)

    def _slots(self, where: Where, newest_s: int) -> Iterator[Slot]:
        queue, task, second = where
        yield from self.all.slots_of(second, newest_s)
        yield from self.queue(queue).slots_of(second, newest_s)
        yield from self.task((queue, task)).slots_of(second, newest_s)

    def queue(self, name: str) -> TrafficRecord:
        """Return the record of a queue, a new one if need be."""
        record = self.queues.get(name)
        if record is None:
            _make_room(self.queues, MOST_QUEUES)
            record = self.queues[name] = TrafficRecord()
        return record

    def task(self, name: TaskName) -> TrafficRecord:
        """Return the record of a task, a new one if need be."""
        record = self.tasks.get(name)
        if record is None:
            _make_room(self.tasks, MOST_TASKS)
            record = self.tasks[name] = TrafficRecord(seconds=False)
        return record


def _make_room(records: dict[Name, TrafficRecord], most: int) -> None:
    if len(records) >= most:
        del records[min(records, key=lambda name: records[name].touched_s)]
