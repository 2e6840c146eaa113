"""The simulation of a lake's history: lives that the table of transitions allows, the same every time. No Spark."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks.lake_scale.columns import batches_between, schema
from benchmarks.lake_scale.copies import Shift
from benchmarks.lake_scale.world import DAY_MS, SHELF, World
from holdfast.core.state import FINISHED, State
from holdfast.core.transition import TRANSITIONS
from holdfast.spark.lake.schemas import EVENTS

WORLD = World(shelves_per_day=1, first_day=10)
ENDS = ("complete", "retry", "fail", "reap", "release")


def log_of(world: World, *edges: int) -> pa.Table:
    """The events of these times, in as many parts as there are."""
    parts = [batch for after, upto in pairwise(edges) for batch in batches_between(world, after, upto)]
    return pa.Table.from_batches(parts, schema())


def a_day(world: World = WORLD) -> pa.Table:
    return log_of(world, world.start_ms, world.start_ms + DAY_MS)


def test_parts_of_a_time_have_the_events_of_the_whole_once() -> None:
    start = WORLD.start_ms
    parts = log_of(WORLD, start, start + 5_000_000, start + 5_000_001, start + DAY_MS)
    whole = a_day()
    order = [("sequence", "ascending")]
    assert parts.sort_by(order).equals(whole.sort_by(order))
    assert len(set(whole["sequence"].to_pylist())) == len(whole)


def test_a_seed_decides_everything() -> None:
    assert a_day().equals(a_day())
    assert not a_day().equals(a_day(World(shelves_per_day=1, first_day=10, seed=2)))


def test_events_have_the_columns_of_the_lake() -> None:
    assert schema().names == [name for name in EVENTS.names if name not in ("batch", "day")]


def test_every_life_is_one_that_the_table_allows() -> None:
    rows = a_day().select(["run", "sequence", "transition", "state", "attempt", "at"]).sort_by("sequence").to_pylist()
    lives: dict[int, list[dict[str, object]]] = {}
    for row in rows:
        lives.setdefault(row["run"], []).append(row)
    late = sum(life[0]["transition"] != "enqueue" for life in lives.values())
    for life in lives.values():
        for before, after in pairwise(life):
            allowed = TRANSITIONS[str(after["transition"])]
            # An event that is seen after this day leaves a hole: then the next one cannot be judged.
            if after["attempt"] == before["attempt"] + (after["transition"] == "claim"):
                source = State(str(before["state"]))
                # A scheduled job is promoted before it is claimed; the simulation leaves that event out.
                source = State.WAITING if after["transition"] == "claim" and source is State.SCHEDULED else source
                assert source in allowed.source, (before, after)
            assert State(str(after["state"])) in allowed.target
            assert before["at"] < after["at"]
    ended = Counter(State(str(life[-1]["state"])) in FINISHED for life in lives.values())
    assert ended[True] > 0.9 * len(lives)
    assert ended[False] > 0, "some jobs are open at the end"
    assert late < 0.01 * len(lives), "few jobs whose first event is seen later than others"


def test_it_is_as_varied_as_it_says() -> None:
    day = a_day(World(first_day=10))
    counts = Counter(day["transition"].to_pylist())
    assert {*counts} == {"enqueue", "claim", "cancel", *ENDS}
    assert abs(len(day) / World().events_per_day - 1) < 0.05
    assert len(set(day["queue"].to_pylist())) > 500
    assert len(set(day["key"].to_pylist())) > 3000
    assert day["key"].null_count > 0
    ends = [row for row in day.to_pylist() if row["transition"] in ENDS]
    assert all(row["worker"] and row["run_ms"] for row in ends)
    assert all((row["error_type"] is None) == (row["error_signature"] is None) for row in ends)


def test_a_copy_is_the_same_history_some_days_before(tmp_path: Path) -> None:
    world, shift = World(shelves_per_day=1, first_day=10), Shift(3, 3 * SHELF)
    rows = a_day(world)
    pq.write_table(shift.table(rows), tmp_path / "copy.parquet")
    moved = pq.read_table(tmp_path / "copy.parquet")
    first, copied = rows.slice(0, 1).to_pylist()[0], moved.slice(0, 1).to_pylist()[0]
    assert first["at"] - copied["at"] == timedelta(days=3)
    assert first["run"] - copied["run"] == 3 * SHELF
    assert shift.value("sequence", first["sequence"]) == copied["sequence"]
    assert {name: copied[name] for name in ("id", "queue", "attempt")} == {
        name: first[name] for name in ("id", "queue", "attempt")
    }
    earlier = World(shelves_per_day=1, first_day=7)
    assert abs(len(a_day(earlier)) / len(rows) - 1) < 0.05
    assert min(moved["run"].to_pylist()) == min(a_day(earlier)["run"].to_pylist())
