"""A graph of boxes in columns, from what comes first to what comes last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from markupsafe import Markup

from ....core.visible import visible
from ..view.graph import Box, JobGraph
from .chart import bar
from .layout import BOX_HEIGHT, BOX_WIDTH, Point, layout

LETTERS = 24
"""So many letters of a name fit into a box."""
MOST_FITTED = 5
"""So many columns are shown at once, made a little smaller where there is less room; more are scrolled."""
Link = Callable[[Box], str]


def draw_graph(graph: JobGraph, link: Link) -> Markup:
    """Return the picture. Every box is a link."""
    found = layout(graph.boxes)
    edges = [_edge(points) for points in found.edges]
    boxes = [_box(box, found.places[box.key], link(box)) for box in graph.boxes]
    return Markup(
        '<svg class="graph{fits}" width="{w:.0f}" height="{h:.0f}" viewBox="-2 -2 {w:.0f} {h:.0f}" role="group" '
        'aria-label="{n} jobs in {b} boxes">{edges}{boxes}</svg>'
    ).format(
        w=found.width + 4,
        h=found.height + 4,
        fits=" fits" if found.columns <= MOST_FITTED else "",
        n=graph.jobs,
        b=len(graph.boxes),
        edges=Markup("").join(edges),
        boxes=Markup("").join(boxes),
    )


def _edge(points: Sequence[Point]) -> Markup:
    """Return a line that bends between two columns, and passes a column in between straight on."""
    made = "M{:.0f} {:.0f}".format(*points[0])
    for number, ((x1, y1), (x2, y2)) in enumerate(pairwise(points)):
        bend = (x1 + x2) / 2
        made += f"H{x2:.0f}" if number % 2 else f"C{bend:.0f} {y1:.0f} {bend:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"
    return Markup('<path class="edge" d="{}"/>').format(made)


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
