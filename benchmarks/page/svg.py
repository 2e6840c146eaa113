"""Pictures without a script: a canvas of bars, lines and words, readable on light and dark pages.

A picture has a ground of its own, whose colours follow the reader's system, so that its words have the same contrast
wherever the picture is shown.
"""

from __future__ import annotations

from xml.sax.saxutils import escape

WIDTH = 760
STYLE = """
    text { font: 12px system-ui, sans-serif; fill: #24292f; }
    .title { font-weight: 600; font-size: 14px; }
    .small { font-size: 11px; fill: #57606a; }
    .end { text-anchor: end; }
    .middle { text-anchor: middle; }
    .ground { fill: #ffffff; stroke: #d0d7de; }
    .grid { stroke: #d8dee4; }
    .fill-0 { fill: #00796b; } .fill-1 { fill: #8c959f; } .fill-2 { fill: #b08800; } .fill-3 { fill: #8250df; }
    .line-0 { stroke: #00796b; } .line-1 { stroke: #8250df; } .line-2 { stroke: #b08800; } .line-3 { stroke: #57606a; }
    polyline { fill: none; stroke-width: 2; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; }
      .small { fill: #9da7b3; }
      .ground { fill: #161b22; stroke: #30363d; }
      .grid { stroke: #30363d; }
      .fill-0 { fill: #4db6ac; } .fill-1 { fill: #6e7681; } .fill-2 { fill: #d4a72c; } .fill-3 { fill: #b392f0; }
      .line-0 { stroke: #4db6ac; } .line-1 { stroke: #b392f0; }
      .line-2 { stroke: #d4a72c; } .line-3 { stroke: #9da7b3; }
    }
"""


class Canvas:
    """Shapes, one below the other, until they are written as a picture."""

    def __init__(self, title: str, about: str) -> None:
        self._title = title
        self._about = about
        self._shapes: list[str] = []

    def text(self, x: float, y: float, words: str, style: str = "") -> None:
        self._shapes.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{style}">{escape(words)}</text>')

    def bar(self, x: float, y: float, width: float, height: float, style: str) -> None:
        size = f'width="{max(width, 1):.1f}" height="{height:.1f}"'
        self._shapes.append(f'<rect x="{x:.1f}" y="{y:.1f}" {size} class="{style}"/>')

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str) -> None:
        self._shapes.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"/>')

    def path(self, points: list[tuple[float, float]], style: str) -> None:
        where = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._shapes.append(f'<polyline points="{where}" class="{style}"/>')

    def dot(self, x: float, y: float, style: str) -> None:
        self._shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="{style}"/>')

    def picture(self, height: float) -> str:
        """The whole of it."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img"'
            f' aria-label="{escape(self._about, {chr(34): "&quot;"})}">'
        )
        ground = f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:.0f}" rx="6" class="ground"/>'
        title = f'<text x="16" y="26" class="title">{escape(self._title)}</text>'
        return "\n".join([head, f"<style>{STYLE}</style>", ground, title, *self._shapes, "</svg>"]) + "\n"
