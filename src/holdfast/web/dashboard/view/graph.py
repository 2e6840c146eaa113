"""A graph of jobs as people can read it: jobs that are alike become one group, and long lines become one step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ....core.job import JobRecord
from ....core.state import FINISHED, State

Name = tuple[str, str]
"""The queue and the id of a job."""
SINGLE = 4
"""From so many jobs on that are alike, they are drawn as one group."""
MOST_BOXES = 80
"""Above so many boxes, lines of boxes are drawn as one."""


@dataclass
class Box:
    """One box of the picture: a job, or a group of jobs."""

    key: int
    level: int
    jobs: list[JobRecord]
    title: str
    after: set[int] = field(default_factory=set)
    """The boxes that it waits for."""

    @property
    def counts(self) -> Counter[str]:
        """How many of its jobs are in which state."""
        return Counter(str(job.outcome) for job in self.jobs)

    @property
    def state(self) -> str:
        """The state that matters most among its jobs."""
        return _telling(self.counts)


@dataclass(frozen=True)
class JobGraph:
    """Boxes by level, and whether there was more than could be read."""

    boxes: tuple[Box, ...]
    jobs: int
    cut: bool = False

    @property
    def counts(self) -> Counter[str]:
        """How many of all its jobs are in which state."""
        return sum((box.counts for box in self.boxes), Counter[str]())

    @property
    def state(self) -> str:
        """The state that matters most among all its jobs: it is completed when every one of them is."""
        return _telling(self.counts)

    @property
    def over(self) -> int:
        """How many of its jobs are finished."""
        return sum(self.counts[str(state)] for state in FINISHED)


def _telling(counts: Counter[str]) -> str:
    """Return the state that matters most."""
    order = (State.FAILED, State.ACTIVE, State.WAITING, State.SCHEDULED, State.BLOCKED, State.CANCELLED)
    return next((str(state) for state in order if counts[str(state)]), str(State.COMPLETED))


def grouped(jobs: Sequence[JobRecord], after: Mapping[Name, Iterable[Name]], cut: bool = False) -> JobGraph:
    """Return the graph of jobs, each of which comes after others."""
    known = {(job.queue, job.id): job for job in jobs}
    before = {name: [each for each in after.get(name, ()) if each in known] for name in known}
    levels = _levels(before)
    before = {name: [each for each in some if levels[each] < levels[name]] for name, some in before.items()}
    box_of: dict[Name, int] = {}
    boxes: dict[int, Box] = {}
    for level in range(max(levels.values(), default=-1) + 1):
        alike: dict[tuple[object, ...], list[Name]] = {}
        for name in (each for each in known if levels[each] == level):
            parents = frozenset(box_of[each] for each in before[name])
            alike.setdefault((known[name].queue, known[name].task, parents), []).append(name)
        for names in alike.values():
            for part in [names] if len(names) >= SINGLE else [[name] for name in names]:
                _add(boxes, box_of, level, part, known, before)
    joined = _joined(boxes) if len(boxes) > MOST_BOXES else boxes
    return JobGraph(tuple(joined.values()), len(jobs), cut)


def _add(
    boxes: dict[int, Box],
    box_of: dict[Name, int],
    level: int,
    names: Sequence[Name],
    known: Mapping[Name, JobRecord],
    before: Mapping[Name, Sequence[Name]],
) -> None:
    key = len(boxes)
    jobs = [known[name] for name in names]
    made = Box(key, level, jobs, jobs[0].task or jobs[0].queue)
    for name in names:
        box_of[name] = key
        made.after |= {box_of[each] for each in before[name]}
    boxes[key] = made


def _levels(before: Mapping[Name, Sequence[Name]]) -> dict[Name, int]:
    """Return how many steps each job is from the beginning, without recursion: chains may be long."""
    waits = {name: len(set(parents)) for name, parents in before.items()}
    children: dict[Name, list[Name]] = {}
    for name, parents in before.items():
        for parent in set(parents):
            children.setdefault(parent, []).append(name)
    levels = {name: 0 for name, open_ in waits.items() if open_ == 0}
    ready = list(levels)
    while ready:
        name = ready.pop()
        for child in children.get(name, ()):
            levels[child] = max(levels.get(child, 0), levels[name] + 1)
            waits[child] -= 1
            if waits[child] == 0:
                ready.append(child)
    return {name: levels.get(name, 0) for name in before}


def _joined(boxes: Mapping[int, Box]) -> dict[int, Box]:
    """Join lines of boxes whose jobs stand alike: hundreds of completed steps are one."""
    children: dict[int, list[int]] = {}
    for box in boxes.values():
        for parent in box.after:
            children.setdefault(parent, []).append(box.key)
    into: dict[int, int] = {}
    kept: dict[int, Box] = {}
    for key in sorted(boxes, key=lambda each: boxes[each].level):
        box = boxes[key]
        before = next(iter(box.after)) if len(box.after) == 1 else -1
        head = kept.get(into.get(before, -1))
        if head is not None and len(children[before]) == 1 and head.state == box.state:
            head.jobs.extend(box.jobs)
            into[key] = head.key
            continue
        kept[key] = Box(key, box.level, list(box.jobs), box.title, {into.get(each, each) for each in box.after})
        into[key] = key
    return _numbered(kept)


def _numbered(boxes: dict[int, Box]) -> dict[int, Box]:
    """Give the boxes levels without holes."""
    order = {level: number for number, level in enumerate(sorted({box.level for box in boxes.values()}))}
    for box in boxes.values():
        box.level = order[box.level]
    return boxes
