"""A graph of boxes in columns, from what comes first to what comes last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup

from ....core.visible import visible
from ..view.graph import Box, JobGraph
from .chart import bar

BOX_WIDTH, BOX_HEIGHT = 190, 54
GAP_X, GAP_Y = 56, 16
LETTERS = 24
"""So many letters of a name fit into a box."""
MOST_FITTED = 5
"""So many columns are shown at once, made a little smaller where there is less room; more are scrolled."""
Link = Callable[[Box], str]


def draw_graph(graph: JobGraph, link: Link) -> Markup:
    """Return the picture. Every box is a link."""
    columns = _columns(graph.boxes)
    places = _places(columns)
    wide = max(1, len(columns)) * (BOX_WIDTH + GAP_X) - GAP_X + 4
    high = max((len(column) for column in columns), default=1) * (BOX_HEIGHT + GAP_Y) - GAP_Y + 4
    edges = [_edge(places[parent], places[box.key]) for box in graph.boxes for parent in sorted(box.after)]
    boxes = [_box(box, places[box.key], link(box)) for box in graph.boxes]
    return Markup(
        '<svg class="graph{fits}" width="{w}" height="{h}" viewBox="-2 -2 {w} {h}" role="group" '
        'aria-label="{n} jobs in {b} boxes">{edges}{boxes}</svg>'
    ).format(
        w=wide,
        h=high,
        fits=" fits" if len(columns) <= MOST_FITTED else "",
        n=graph.jobs,
        b=len(graph.boxes),
        edges=Markup("").join(edges),
        boxes=Markup("").join(boxes),
    )


def _columns(boxes: Sequence[Box]) -> list[list[Box]]:
    """Put the boxes of each level below each other, near those that they wait for."""
    columns: list[list[Box]] = [[] for _ in range(max((box.level for box in boxes), default=-1) + 1)]
    for box in boxes:
        columns[box.level].append(box)
    rows: dict[int, float] = {}
    for column in columns:
        column.sort(key=lambda box: (_middle(box, rows), box.key))
        rows.update({box.key: row for row, box in enumerate(column)})
    return columns


def _middle(box: Box, rows: Mapping[int, float]) -> float:
    known = [rows[key] for key in box.after if key in rows]
    return sum(known) / len(known) if known else 0.0


def _places(columns: Sequence[Sequence[Box]]) -> dict[int, tuple[float, float]]:
    most = max((len(column) for column in columns), default=0)
    places = {}
    for number, column in enumerate(columns):
        offset = (most - len(column)) * (BOX_HEIGHT + GAP_Y) / 2
        for row, box in enumerate(column):
            places[box.key] = number * float(BOX_WIDTH + GAP_X), offset + row * (BOX_HEIGHT + GAP_Y)
    return places


def _edge(start: tuple[float, float], end: tuple[float, float]) -> Markup:
    x1, y1 = start[0] + BOX_WIDTH, start[1] + BOX_HEIGHT / 2
    x2, y2 = end[0], end[1] + BOX_HEIGHT / 2
    bend = (x1 + x2) / 2
    return Markup('<path class="edge" d="M{:.0f} {:.0f}C{:.0f} {:.0f} {:.0f} {:.0f} {:.0f} {:.0f}"/>').format(
        x1, y1, bend, y1, bend, y2, x2, y2
    )


def _box(box: Box, place: tuple[float, float], href: str) -> Markup:
    group = len(box.jobs) > 1
    below = f"{len(box.jobs):,} jobs" if group else box.jobs[0].id
    counts = ", ".join(f"{number:,} {state}" for state, number in box.counts.items())
    progress = _progress(box) if group else Markup("")
    return Markup(
        '<a class="box state-{state}" href="{href}" transform="translate({x:.0f} {y:.0f})">'
        "<title>{full}: {counts}</title>"
        '<rect class="frame" width="{w}" height="{h}" rx="6"/><rect class="edge-mark" width="4" height="{h}" rx="2"/>'
        '<text class="name" x="14" y="21">{name}</text><text class="small" x="14" y="38">{below}</text>'
        '<text class="state" x="{end}" y="21">{state}</text>{progress}</a>'
    ).format(
        state=box.state, href=href, x=place[0], y=place[1], full=visible(box.title), counts=counts, w=BOX_WIDTH,
        h=BOX_HEIGHT, name=_cut(box.title, 16), below=_cut(below, LETTERS + 3), end=BOX_WIDTH - 10,
        progress=progress,
    )  # fmt: skip


def _progress(box: Box) -> Markup:
    counts = box.counts
    order = ("completed", "failed", "cancelled", "active", "waiting", "scheduled", "blocked")
    return Markup('<svg x="14" y="44" width="{}" height="4">{}</svg>').format(
        BOX_WIDTH - 26, bar([(state, counts[state]) for state in order], "")
    )


def _cut(text: str, most: int) -> str:
    shown = visible(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"
