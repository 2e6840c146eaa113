"""Whole tables out of the server: streams by range, records by run. Reads in short pages, and no function of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from redis.exceptions import RedisError

from ....core.bound import SCANNED_AT_ONCE
from ....core.state import State
from ....errors import StoreCorrupt, StoreError
from ...scan import (
    JOB_COLUMNS,
    Columns,
    Condition,
    ScanPart,
    ScanPlan,
    Table,
    listed,
    lost,
    matching,
    run_shares,
    shares,
)
from ..caller import rid
from ..connection.address import RedisAddress
from ..connection.blocking import connect_blocking, raw
from ..keys import Keys, long
from ..record.event import event_or_none
from ..record.job import UNREADABLE, RedisRecord, is_gone, parse_or_none
from ..record.view import row
from .position import UNBORN, QueuePosition, mark_of, parse_position, position_at, text_of
from .pruning import SCRIPT, Pruning, Records
from .ranges import LogRange, RedisPart, ending, fair, low_of, range_of
from .reaching import reached
from .times import within_times

SHORT = 2_000
"""The server does nothing else while it answers: about a millisecond for so many events."""
RUNS = 1_000
DENSE = 4
"""Runs are asked for one by one while at least each fourth is still kept."""


class RedisScan:
    """Reads one namespace."""

    def __init__(self, address: RedisAddress) -> None:
        self.address = address
        self._keys = Keys(address.namespace)
        self._client: Any = None

    # --- positions

    def end(self, queues: Sequence[str] | None = None) -> str:
        """Return the position after every event, queue by queue."""
        return text_of({name: str(log.position(log.last)) for name, log in self._logs(queues).items()})

    def reach(
        self, after: str | None, limit: int | None, which: Sequence[Condition] = (), upto: str | None = None
    ) -> str:
        """Return a position with at most `limit` matching events before it, shared among the queues that have some."""
        known, ends = parse_position(after), parse_position(upto)
        plan = ScanPlan(table="events", columns=("sequence",), which=tuple(which))
        logs = self._logs(plan.only("queue"), known, ends)
        if upto is not None:
            logs = {name: ending(log, ends[name]) for name, log in logs.items() if name in ends}
        lows = {name: max(low_of(known.get(name), log)[0], log.first - 1) for name, log in logs.items()}
        upper = self._upper(plan, logs, lows, limit)
        marked = {name: self._marked(name, log.position(upper[name])) for name, log in logs.items()}
        return text_of({name: str(position) for name, position in {**known, **marked}.items()})

    def _upper(
        self, plan: ScanPlan, logs: Mapping[str, LogRange], lows: Mapping[str, int], limit: int | None
    ) -> dict[str, int]:
        """Return the sequence up to which each log is read. Where all events of a queue match, none is looked at."""
        lasts = {name: max(lows[name], log.last) for name, log in logs.items()}
        if limit is None:
            return lasts
        if not limit or all(each.column == "queue" and each.op in ("=", "in") for each in plan.which):
            taken = fair({name: lasts[name] - lows[name] for name in logs}, limit)
            return {name: lows[name] + taken[name] for name in logs}
        pruning = Pruning(plan, self._ask)

        def wanted(name: str, low: int, high: int) -> list[int]:
            part = RedisPart(queue=name, low=low, high=high, epoch=logs[name].epoch)
            pages = (matching(page, plan.which) for page in self._events(plan, part, pruning))
            return [int(sequence) for page in pages for sequence in listed(page["sequence"])]

        return reached(lows, lasts, limit, wanted)

    def _marked(self, queue: str, position: QueuePosition) -> QueuePosition:
        """Return a place with the mark of its entry, if that is still there."""
        if position.mark or not position.entry:
            return position
        found = self._ask(queue, "XRANGE", self._keys.of(queue, "events"), position.entry, position.entry)
        return position._replace(mark=mark_of(found[0][1])) if found else position

    def _names(self) -> list[str]:
        return sorted(name.decode() for name in self._ask(None, "SMEMBERS", self._keys.of_store("queues")))

    def _logs(self, queues: Sequence[str] | None, *positions: Mapping[str, QueuePosition]) -> dict[str, LogRange]:
        """Return the logs of these queues, or of all, with the marks of the entries at which the positions are."""
        names = self._names() if queues is None else queues
        return {name: self._log(name, [each[name] for each in positions if name in each]) for name in names}

    def _log(self, queue: str, positions: Sequence[QueuePosition]) -> LogRange:
        key = self._keys.of(queue, "events")
        epoch = (self._ask(queue, "HGET", self._keys.declared(queue), "epoch") or UNBORN.encode()).decode()
        first = self._ask(queue, "XRANGE", key, "-", "+", "COUNT", 1)
        last = self._ask(queue, "XREVRANGE", key, "+", "-", "COUNT", 1)
        if not first or not last:
            return LogRange(epoch, 0, -1)
        start, end = position_at(*first[0]), position_at(*last[0])
        looked_at = [
            self._marked(queue, QueuePosition(epoch, position.seq))
            for position in positions
            if position.mark and position.seq < end.seq
        ]
        marks = {position.seq: position.mark for position in (*looked_at, end) if position.mark}
        return LogRange(epoch, start.seq, end.seq, marks)

    # --- planning

    def takes(self, table: Table, condition: Condition) -> bool:
        """True for every plain column: queues are chosen by their keys, the rest while it is taken apart."""
        written = ("envelope",) if table == "events" else ("progress", "error", "envelope")
        return condition.column not in written

    def plan(self, plan: ScanPlan) -> list[RedisPart]:
        """Return ranges of the queues' logs, or of their runs."""
        if plan.table == "jobs":
            return self._plan_jobs(plan)
        after, upto = parse_position(plan.after), parse_position(plan.upto)
        logs = self._logs(plan.only("queue"), after, upto)
        ends = None if plan.upto is None else upto
        whole = [each for name, log in logs.items() for each in range_of(plan, name, log, after, ends)]
        ranges = [each for part in whole for each in within_times(plan, part, self._time_of)]
        total = sum(part.high - part.low for part in ranges)
        size = max(plan.least, -(-total // max(1, plan.parts)))
        return [
            msgspec.structs.replace(part, low=low, high=high)
            for part in ranges
            for low, high in ([(part.low, part.high)] if part.reset else shares(part.low, part.high, plan.parts, size))
        ]

    def _time_of(self, queue: str, epoch: str, seq: int) -> int | None:
        """Return when an event happened; `None` when it is gone, or cannot be read."""
        key, entry = self._keys.of(queue, "events"), f"{epoch}-{seq}"
        found = self._ask(queue, "XRANGE", key, entry, entry)
        flat = found[0][1] if found else []
        event = event_or_none(queue, dict(zip(flat[::2], flat[1::2], strict=False)))
        return None if event is None else event.at_ms

    def _plan_jobs(self, plan: ScanPlan) -> list[RedisPart]:
        """Return the runs of each queue in shares; where all queues are wanted, also those that are yet to come."""
        chosen = plan.only("queue")
        names = self._names() if chosen is None else list(chosen)
        parts = [part for name in names for part in self._plan_queue(plan, name)]
        return parts if chosen is not None else [*parts, RedisPart(queue="", but=tuple(names))]

    def _plan_queue(self, plan: ScanPlan, queue: str) -> list[RedisPart]:
        last = self._last_run(queue)
        kept = self._ask(queue, "HLEN", self._keys.of(queue, "jobs"))
        low, high = plan.runs(1, last)
        if high - low > kept * DENSE:
            return [RedisPart(queue=queue, all=True)]
        return [RedisPart(queue=queue, low=low, high=high) for low, high in run_shares(plan, 1, last)]

    def _last_run(self, queue: str) -> int:
        return int(self._ask(queue, "HGET", self._keys.declared(queue), "run") or 0)

    # --- reading

    def read(self, plan: ScanPlan, part: ScanPart) -> Iterator[Columns]:
        """Yield a range, page by page."""
        assert isinstance(part, RedisPart)
        if part.reset:
            raise lost(self.address, None)
        pruning = Pruning(plan, self._ask)
        for page in self._events(plan, part, pruning) if plan.table == "events" else self._jobs_of(part, pruning):
            found = matching(page, plan.which)
            yield {name: found[name] for name in plan.columns}

    def _jobs_of(self, part: RedisPart, pruning: Pruning) -> Iterator[Columns]:
        if part.but is None:
            yield from self._jobs(part, pruning)
            return
        for name in self._names():
            if name not in part.but:
                yield from self._jobs(RedisPart(queue=name, all=True), pruning)

    def _events(self, plan: ScanPlan, part: RedisPart, pruning: Pruning) -> Iterator[Columns]:
        from .columns import event_columns  # which needs packages that a queue does without

        read = partial(event_columns, names={*plan.columns, *(each.column for each in plan.which)})
        key, low, count = self._keys.of(part.queue, "events"), part.low, 0
        while low < part.high:
            entries: list[Any] = []
            for start in range(low, min(low + SCANNED_AT_ONCE, part.high), SHORT):
                there, found = pruning.entries(part.queue, key, part.epoch, start, min(start + SHORT, part.high))
                entries += found
                count += there
            low += SCANNED_AT_ONCE
            page = _columns(read, part, entries) if entries else {}
            if page:
                yield page
        if part.anchored and count < part.high - part.low:
            raise lost(self.address, part.high - part.low - count)

    def _jobs(self, part: RedisPart, pruning: Pruning) -> Iterator[Columns]:
        seconds, micros = self._ask(part.queue, "TIME")
        now = int(seconds) * 1000 + int(micros) // 1000
        for found in self._scanned(part, pruning) if part.all else self._asked(part, pruning):
            parsed = [(int.from_bytes(run, "big"), parse_or_none(raw)) for run, raw in found]
            rows = [(run, job) for run, job in parsed if job is not None and not is_gone(job, now)]
            followed = self._followed(part.queue, [job for _, job in rows if job.state is State.ACTIVE])
            lines = [row(part.queue, run, job, job.id in followed, now) for run, job in rows]
            if lines:
                yield dict(zip(JOB_COLUMNS, map(list, zip(*lines, strict=True)), strict=True))

    def _asked(self, part: RedisPart, pruning: Pruning) -> Iterator[Records]:
        """Yield the records of a range of runs."""
        key, high = self._keys.of(part.queue, "jobs"), min(part.high, self._last_run(part.queue))
        for low in range(part.low, high, RUNS):
            runs = [rid(run) for run in range(low + 1, min(low + RUNS, high) + 1)]
            yield pruning.records(part.queue, key, runs)

    def _scanned(self, part: RedisPart, pruning: Pruning) -> Iterator[Records]:
        """Yield every record once, though the server may show it twice."""
        key, cursor, seen = self._keys.of(part.queue, "jobs"), b"0", set[bytes]()
        while True:
            cursor, found = pruning.page(part.queue, key, cursor, RUNS)
            page = {run: raw for run, raw in found if run not in seen}
            seen.update(page)
            yield list(page.items())
            if cursor == b"0":
                return

    def _followed(self, queue: str, jobs: Sequence[RedisRecord]) -> set[str]:
        """Return the ids for which another dispatch waits."""
        if not jobs:
            return set()
        waiting = self._ask(queue, "HKEYS", self._keys.of(queue, "successors"))
        return {long(id) for id in waiting}

    # --- the connection

    def _ask(self, queue: str | None, *command: Any) -> Any:
        try:
            if self._client is None:
                self._client = connect_blocking(self.address)
            return raw(self._node(queue)).execute_command(*command)
        except (RedisError, OSError) as error:
            if "WRONGTYPE" in str(error):
                key = command[3] if command[0] == SCRIPT else command[1]
                raise StoreCorrupt(
                    f"{self.address}: another program wrote over {key}; holdfast doctor sets it aside"
                ) from error
            raise StoreError(f"{self.address}: {error}; is the server running, and does the login suffice?") from error

    def _node(self, queue: str | None) -> Any:
        """Return the client of the node that has a queue, or the keys of the whole namespace."""
        if self.address.kind != "cluster":
            return self._client
        key = self._keys.of_store("queues") if queue is None else self._keys.declared(queue)
        return self._client.get_redis_connection(self._client.get_node_from_key(key))

    def close(self) -> None:
        """Close the connection."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _columns(read: Callable[[str, str, Sequence[Any]], Columns], part: RedisPart, entries: Sequence[Any]) -> Columns:
    """Return entries as columns; without those that cannot be read, where some cannot."""
    try:
        return read(part.queue, part.epoch, entries)
    except UNREADABLE:
        readable = [
            (id, flat)
            for id, flat in entries
            if event_or_none(part.queue, dict(zip(flat[::2], flat[1::2], strict=False)))
        ]
        return read(part.queue, part.epoch, readable) if readable else {}
