"""The page and the terminal show a report whole, and take nothing in a job for more than text."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest
from drawn_history import DrawnHistory, DrawnQueue
from plain_lake import write_lake, write_table
from playwright.sync_api import sync_playwright

from holdfast import ErrorRecord, Event
from holdfast.spark.lake.report import html_page, make_report
from holdfast.spark.lake.report.summary import comparison, gap_warning, late_warning, no_comparison, tiles
from holdfast.spark.lake.schemas import MESSAGES

BEGIN = datetime(2026, 11, 10, 7, 0, tzinfo=UTC)
EVIL = "<script>alert(1)</script>\x1b[2J\u202e"
TAME = "&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[2J\\u202e"
LONG = "a" * 200
HOSTILE = (
    DrawnQueue(f"q{EVIL}", f"t{EVIL}", 900, 40_000, 0.5, ErrorRecord(type=f"E{EVIL}", message=EVIL), (f"k{EVIL}", "b")),
    DrawnQueue(LONG, LONG, 400, 2_000, 0.2, ErrorRecord(type=LONG, message=LONG), (LONG, "b")),
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a lake whose jobs, errors and tenants have names that nobody should have."""
    events = DrawnHistory(1, BEGIN, 1.0, HOSTILE).draw()
    gaps = [{"batch": 1, "missing": 4200}, {"batch": 2, "missing": None}]
    lake = write_lake(tmp_path_factory.mktemp("hostile") / "lake", events, BEGIN + timedelta(hours=1), gaps)
    messages = [
        {"error_signature": queue.error.signature, "message": queue.error.message, "seen_at": BEGIN}
        for queue in HOSTILE
    ]
    write_table(lake, MESSAGES, messages)
    report = make_report(lake, BEGIN + timedelta(minutes=30), BEGIN + timedelta(hours=1))
    assert report.before is not None
    assert gap_warning(report) == (
        "This history has gaps: 4,200 events were trimmed before they were read, and the log was reset once."
    )
    return html_page(report)


def test_what_jobs_carry_is_text(hostile: str) -> None:
    for prefix in "qtkE":
        assert f"{prefix}{TAME}" in hostile
    assert f"E{TAME}: {TAME}" in hostile
    for word in ("<script", "\x1b", "\u202e"):
        assert word not in hostile


def test_the_page_is_well_formed_and_loads_nothing(hostile: str) -> None:
    class Nesting(HTMLParser):
        """Knows which elements are open."""

        open: list[str]

        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in ("meta", "rect", "line", "path", "circle") or tag == "rect":
                self.open.append(tag)

        def handle_startendtag(self, tag: str, attrs: object) -> None:
            pass

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

    nesting = Nesting()
    nesting.open = []
    nesting.feed(hostile)
    assert nesting.open == []
    for word in ("http:", "https:", "src=", "url(", "style=", "@import"):
        assert word not in hostile


def test_nothing_is_cut_off_on_a_screen_or_on_paper(hostile: str) -> None:
    wide = """() => [...document.querySelectorAll('main, .card, table, figure, svg, .tile')]
        .filter(e => e.scrollWidth > e.clientWidth + 1 || e.getBoundingClientRect().right > innerWidth + 1)
        .map(e => e.outerHTML.slice(0, 80))"""
    cut = """() => [...document.querySelectorAll('svg text')].filter(text => {
        const box = text.getBoundingClientRect(), frame = text.closest("svg").getBoundingClientRect();
        return box.left < frame.left - 1 || box.right > frame.right + 1 }).map(text => text.textContent)"""
    a4, letter = (794 - 91, 1123), (816 - 91, 1056)  # in pixels, less two margins of 12 mm
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page()
        page.set_content(hostile)
        for media, (width, height) in (("screen", (1280, 900)), ("print", a4), ("print", letter)):
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(media=media)  # type: ignore[arg-type]
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (media, width)
            assert page.evaluate(wide) == [], (media, width)
            assert page.evaluate(cut) == [], (media, width)
        browser.close()


def test_the_axes_of_every_chart_begin_at_zero_and_have_round_ends(hostile: str) -> None:
    charts = re.findall(r"<svg.*?</svg>", hostile, re.DOTALL)
    assert len(charts) >= 12
    for chart in charts:
        values = re.findall(r'class="tick end">([^<]*)<', chart)
        assert values[0] == "0"
        assert all(re.fullmatch(r"0|(\d+|\d*\.\d)( (ms|s|min|h|d|k|M|%))?", value) for value in values), values
        times = re.findall(r'class="tick middle">([^<]*)<', chart)
        assert times, "an axis of time has labels"
        assert all(re.fullmatch(r"\d\d:\d[05](:[03]0)?", time) for time in times), times


def test_tiles_count_stalls_among_what_went_wrong(drawn: tuple[Path, list[Event]]) -> None:
    lake, events = drawn
    report = make_report(lake)
    wrong = [event for event in events if event.transition in ("retry", "fail", "reap")]
    stalled = sum(event.transition == "reap" for event in wrong)
    assert stalled > 0
    titles = {tile.title: tile.value for tile in tiles(report)}
    assert titles[f"of attempts went wrong: {len(wrong):,}, {stalled} of them stalled"].endswith(" %")
    assert comparison(report) == []
    assert no_comparison(report) == "", "all of it was asked for: nothing could be before"
    assert late_warning(make_report(lake, BEGIN, BEGIN + timedelta(hours=8))) == ""
    assert late_warning(make_report(lake, BEGIN, BEGIN + timedelta(hours=11))) == (
        "The lake was read up to 2026-11-10 15:00 only, 3 h before the end of this period."
    )
    early = make_report(lake, BEGIN + timedelta(hours=1))
    assert no_comparison(early) == "There is no comparison: the lake does not reach back to 2026-11-10 01:00."


def test_an_empty_period_is_a_page_too(drawn: tuple[Path, list[Event]]) -> None:
    shown = html_page(make_report(drawn[0], BEGIN + timedelta(days=400)))
    assert "Nothing has happened from 2027-12-15 07:00 (UTC), all queues" in shown
