"""Graphs of chains and flows: a thousand jobs can be read."""

from __future__ import annotations

import re

from holdfast.core.job import JobRecord
from holdfast.core.state import State
from holdfast.web.dashboard.draw.graph import draw_graph
from holdfast.web.dashboard.draw.layout import BOX_HEIGHT, BOX_WIDTH, layout
from holdfast.web.dashboard.view.graph import MOST_BOXES, grouped


def job(id: str, task: str = "work", state: State = State.COMPLETED) -> JobRecord:
    """Return a job of one queue."""
    return JobRecord(queue="q", id=id, run=1, task=task, state=state, payload=b"", run_at_ms=0, enqueued_at_ms=0)


def test_jobs_that_are_alike_are_one_box_with_their_progress() -> None:
    parts = [job(f"p{n}", "part", State.FAILED if n < 3 else State.COMPLETED) for n in range(998)]
    jobs = [job("first", "fetch"), *parts, job("last", "sum", State.BLOCKED)]
    after = {("q", part.id): [("q", "first")] for part in parts} | {("q", "last"): [("q", part.id) for part in parts]}
    graph = grouped(jobs, after)
    assert [(box.title, len(box.jobs), box.level) for box in graph.boxes] == [
        ("fetch", 1, 0), ("part", 998, 1), ("sum", 1, 2),
    ]  # fmt: skip
    assert graph.boxes[1].state == "failed"
    assert graph.boxes[1].counts == {"failed": 3, "completed": 995}
    assert graph.boxes[2].after == {graph.boxes[1].key}
    assert (graph.state, graph.over, graph.counts["blocked"]) == ("failed", 999, 1)


def test_a_long_line_becomes_a_few_steps() -> None:
    jobs = [job(f"s{n}", f"step{n}", State.COMPLETED if n < 600 else State.BLOCKED) for n in range(1000)]
    graph = grouped(jobs, {("q", f"s{n}"): [("q", f"s{n - 1}")] for n in range(1, 1000)})
    assert [(len(box.jobs), box.state, box.level) for box in graph.boxes] == [
        (600, "completed", 0), (400, "blocked", 1),
    ]  # fmt: skip


def test_few_jobs_stay_apart_and_a_circle_ends() -> None:
    jobs = [job("a"), job("b"), job("c")]
    assert len(grouped(jobs, {}).boxes) == 3
    circle = {("q", "a"): [("q", "b")], ("q", "b"): [("q", "a")]}
    assert grouped(jobs, circle).jobs == 3


def test_different_parents_make_different_groups() -> None:
    roots = [job("x", "root"), job("y", "other")]
    jobs = [*roots, *(job(f"{root.id}{n}", "leaf") for root in roots for n in range(10))]
    after = {("q", f"{root.id}{n}"): [("q", root.id)] for root in roots for n in range(10)}
    boxes = grouped(jobs, after).boxes
    assert sorted(len(box.jobs) for box in boxes) == [1, 1, 10, 10]


def test_the_picture_is_small_and_safe() -> None:
    jobs = [job(f"<b>{n}</b>\u202e", f"<script>{n % 700}</script>") for n in range(1000)]
    graph = grouped(jobs, {})
    picture = str(draw_graph(graph, lambda box: f"/job?id={box.key}&x=1"))
    assert "<script>" not in picture
    assert "\u202e" not in picture
    assert "&amp;x=1" in picture
    assert len(re.findall('class="box', picture)) == len(graph.boxes)
    assert MOST_BOXES < 1000


def test_an_edge_over_several_levels_crosses_no_box_between() -> None:
    before = {
        "b0": ["a"],
        "b1": ["a"],
        "c0": ["b0"],
        "c1": ["b1"],
        "d0": ["c0"],
        "d1": ["c1"],
        "end": ["d0", "d1", "b0", "a"],
    }
    jobs = [job(id, id) for id in ("a", *before)]
    boxes = grouped(jobs, {("q", id): [("q", each) for each in some] for id, some in before.items()}).boxes
    found = layout(boxes)
    lines = [points for points in found.edges if len(points) > 2]
    assert sorted(len(points) for points in lines) == [6, 8]
    for points in lines:
        for (left, y), (right, same) in zip(points[1:-1:2], points[2:-1:2], strict=True):
            assert (same, right - left) == (y, BOX_WIDTH)
            column = [place for place in found.places.values() if place[0] == left]
            assert all(not top <= y <= top + BOX_HEIGHT for _, top in column)
    tops = [(x, y) for x, y in found.places.values()]
    assert all(0 <= y <= found.height - BOX_HEIGHT and 0 <= x <= found.width - BOX_WIDTH for x, y in tops)
