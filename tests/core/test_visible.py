"""Text that is safe to show, and lines of a log that nobody forges."""

from __future__ import annotations

import io
import json
import logging
import unicodedata

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Holdfast
from holdfast.core.visible import indented, visible, visible_json, visible_lines
from holdfast.log import LineFormatter

TURNS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
HOSTILE = st.text(
    st.one_of(st.characters(), st.sampled_from(f"\n\r\t\x00\x1b\x7f\x85\x9b\u2028\u2029\ufeff\u200b{TURNS}"))
)


def is_safe(text: str, but: str = "") -> bool:
    """True when no character is a control, a separator of lines, a turn of direction, or half of one."""
    kinds = {unicodedata.category(each) for each in text if each not in but}
    return not kinds & {"Cc", "Zl", "Zp", "Cs"} and not set(text) & set(TURNS)


@given(HOSTILE)
def test_everything_in_it_can_be_seen(text: str) -> None:
    assert is_safe(visible(text))
    assert is_safe(visible_lines(text), "\n\t")
    assert all(line.startswith("  ") for line in indented(text).split("\n"))


@given(st.recursive(HOSTILE.filter(lambda text: not any("\ud800" <= each <= "\udfff" for each in text)), st.lists))
def test_json_that_is_safe_to_show_means_the_same(value: object) -> None:
    text = visible_json(msgspec.json.encode(value).decode())
    assert is_safe(text)
    assert json.loads(text) == value


def test_what_needs_no_escape_has_none() -> None:
    for text in ("plain", "Zürich", "日本 ☃ 😀", "👨\u200d👩\u200d👧", "نی\u200cم", "a\\b"):
        assert visible(text) == visible_lines(text) == text
    assert visible("a\n\t\x1b\x9b\u202e\U000e0041") == r"a\n\t\x1b\x9b\u202e\U000e0041"
    assert visible_json('"\U000e0041"') == r'"\udb40\udc41"'


def _logged(formatter: logging.Formatter, logger: str) -> list[str]:
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    handler.setFormatter(formatter)
    log = logging.getLogger(logger)
    log.addHandler(handler)
    try:
        log.error("job %s: %s", "a\nLINE forged", "100%\x1b[2J")
        try:
            raise ValueError("x\nLINE forged\x9b")
        except ValueError:
            log.exception("it failed")
    finally:
        log.removeHandler(handler)
    return heard.getvalue().split("\n")[:-1]


def test_no_job_forges_a_line_of_our_log_whoever_formats_it() -> None:
    Holdfast("memory://")
    lines = _logged(logging.Formatter("LINE %(message)s"), "holdfast")
    assert lines[0] == r"LINE job a\nLINE forged: 100%\x1b[2J"
    assert [line for line in lines if line.startswith("LINE")] == [lines[0], "LINE it failed"]
    assert is_safe("".join(lines))


def test_no_job_forges_a_line_of_a_worker_whoever_logs_it() -> None:
    lines = _logged(LineFormatter("LINE %(message)s"), "somebody.else")
    assert lines[0] == r"LINE job a\nLINE forged: 100%\x1b[2J"
    assert [line for line in lines if line.startswith("LINE")] == [lines[0], "LINE it failed"]
    assert is_safe("".join(lines))
