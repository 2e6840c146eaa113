"""`holdfast top` without a terminal and without a store: keys, columns, lists and what keys do."""

from __future__ import annotations

import pytest

from holdfast.cli.top.data import TopData
from holdfast.cli.top.keys import KeyParser
from holdfast.cli.top.layout import GAP, NARROWEST, table_lines, widths
from holdfast.cli.top.listing import Column, Listing, ListRow, arranged, first_shown, text
from holdfast.cli.top.press import HELP, press
from holdfast.cli.top.spark import added, sparkline
from holdfast.cli.top.state import ListedJobs, TopState
from holdfast.core.limit import QueueSettings
from holdfast.store.contract import QueueInfo
from holdfast.telemetry.recent import FollowState, RecentView, Traffic


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"jk\r\t\x7f", ["j", "k", "enter", "tab", "backspace"]),
        (b"\x1b[A\x1bOB\x1b[5~\x1b[Z", ["up", "down", "pageup", "backtab"]),
        ("/é€😀".encode(), ["/", "é", "€", "😀"]),
        (b"\x1bq", ["escape", "q"]),
        (b"\x1b[99;99Xq", ["q"]),
        (b"\x00\x01q", ["q"]),
        (b"\xff", ["\ufffd"]),
    ],
)
def test_what_a_keyboard_sends_is_keys(data: bytes, keys: list[str]) -> None:
    assert KeyParser().feed(data) == keys


def test_a_sequence_that_comes_in_pieces_is_one_key() -> None:
    parser = KeyParser()
    assert [key for byte in b"\x1b[6~\xc3\xa9" for key in parser.feed(bytes([byte]))] == ["pagedown", "é"]


def test_an_escape_alone_is_the_key_once_nothing_follows() -> None:
    parser = KeyParser()
    assert parser.feed(b"\x1b") == []
    assert parser.unsure
    assert parser.flush() == ["escape"]
    assert not parser.unsure


def test_an_endless_sequence_is_not_kept() -> None:
    parser = KeyParser()
    parser.feed(b"\x1b[" + b"1" * 1000)
    assert not parser.unsure


def test_columns_fit_and_numbers_are_never_cut() -> None:
    assert widths([10, 5], [True, False], 40) == [10, 5]
    assert widths([50, 5, 30], [True, False, True], 5 + 2 * GAP + 40) == [20, 5, 20]
    assert widths([50, 5], [True, False], 3) == [NARROWEST, 5]


def test_a_line_is_never_wider_than_the_screen() -> None:
    columns = (Column("name"), Column("count", True), Column("wide", False, 200))
    row = ListRow(("k",), (text("漢字" * 50), text("12"), text("x")), ("", 12, ""))
    header, line = table_lines(columns, ["name", "count", "wide"], [row], 30, 0)
    assert line.cell_len == 30
    assert "…" in line.plain
    assert line.plain.rstrip().endswith("12")
    assert "wide" not in header.plain


def test_a_column_of_wide_screens_goes_before_a_mark_is_cut() -> None:
    columns = (Column("queue"), Column("blocked", True, 20), Column("workers", True, 30), Column("", False, 10, True))
    row = ListRow(("k",), (text("mail"), text("7"), text("1"), text("no worker")), ("", 7, 1, ""))
    titles = ["queue", "blocked", "workers", ""]
    header, line = table_lines(columns, titles, [row], 34, None)
    assert "workers" in header.plain
    assert line.plain.endswith("no worker")
    header, line = table_lines(columns, titles, [row], 33, None)
    assert ("workers" in header.plain, "blocked" in header.plain) == (False, True)
    assert line.plain.endswith("no worker")


def test_a_cell_is_one_line_of_plain_text() -> None:
    assert text("a\x1b[2J\nb\u202e").plain == "a\\x1b[2J\\nb\\u202e"
    assert text("[red]x[/red]").plain == "[red]x[/red]"
    assert text(None).plain == ""


def rows(*pairs: tuple[str, float | None]) -> Listing:
    made = [ListRow((name,), (text(name), text(count)), (name, count)) for name, count in pairs]
    return Listing((Column("name"), Column("count", True)), made)


def names(found: list[ListRow]) -> list[str]:
    return [row.key[0] for row in found]


def test_lists_are_sorted_and_filtered() -> None:
    listing = rows(("b", 1), ("a", None), ("C", 5))
    assert names(arranged(listing, None, reverse=False, wanted="")) == ["b", "a", "C"]
    assert names(arranged(listing, 0, reverse=False, wanted="")) == ["a", "b", "C"]
    assert names(arranged(listing, 1, reverse=False, wanted="")) == ["C", "b", "a"], "highest first, unknown last"
    assert names(arranged(listing, 1, reverse=True, wanted="")) == ["b", "C", "a"]
    assert names(arranged(listing, None, reverse=False, wanted="c")) == ["C"]


def test_the_selected_row_is_always_seen() -> None:
    for count in (0, 1, 5, 50):
        for place in range(max(1, count)):
            first = first_shown(place, count, 7)
            assert 0 <= first <= place < max(1, first + 7)


def test_sparklines() -> None:
    assert sparkline([0, 1, 8], 3) == " ▁█"
    assert sparkline([5], 3) == "  █"
    assert sparkline([0, 0], 3) == "   "
    assert sparkline([1, 2, 4], 2, ascii_only=True) == "-#"
    assert added([1, 2, 3, 4, 5], 2) == [5, 9], "the oldest, which are no whole sum, are left out"


def data_of(*queues: QueueInfo) -> TopData:
    state = FollowState(now_ms=1_800_000_000_000, since_ms=0)
    view = RecentView(state=state, all=Traffic(seconds=60), queues={}, tasks=[], failures=[])
    return TopData(url="memory://", view=view, queues=list(queues))


def queue(name: str, *, paused: bool = False, failed: int = 0) -> QueueInfo:
    return QueueInfo(name=name, counts={"failed": failed}, settings=QueueSettings(paused=paused))


LIST = rows(("mail", 1), ("images", 2)).rows


def test_moving_stops_at_both_ends() -> None:
    state, data = TopState(), data_of(queue("mail"), queue("images"))
    for key, place in (("down", "images"), ("down", "images"), ("up", "mail"), ("k", "mail"), ("end", "images")):
        press(state, key, LIST, data, 10)
        assert state.tab.selected == (place,)


def test_only_y_confirms() -> None:
    for key, done in (("y", True), ("n", False), ("q", False), ("enter", False), ("escape", False)):
        state, data = TopState(), data_of(queue("mail"), queue("images"))
        assert press(state, "p", LIST, data, 10) is None
        assert state.confirm is not None
        assert state.confirm.question == "pause mail?"
        intent = press(state, key, LIST, data, 10)
        assert (intent is not None and intent.kind == "pause") is done
        assert state.confirm is None


def test_a_paused_queue_is_resumed_without_a_question() -> None:
    intent = press(TopState(), "p", LIST, data_of(queue("mail", paused=True)), 10)
    assert intent is not None
    assert (intent.kind, intent.queue) == ("resume", "mail")


def test_typed_words_are_no_commands() -> None:
    state, data = TopState(), data_of(queue("mail"))
    for key in ("/", "q", "p", "backspace", "?", "enter"):
        assert press(state, key, LIST, data, 10) is None
    assert state.tab.wanted == "q?"
    press(state, "escape", LIST, data, 10)
    assert state.tab.wanted == ""


def test_the_way_back_from_the_jobs_of_a_worker_is_to_the_workers() -> None:
    state, data = TopState(), data_of()
    state.show("jobs")
    state.jobs = ListedJobs(worker="s1", worker_name="w1")
    press(state, "escape", [], data, 10)
    assert state.view == "workers"


def test_keys_on_an_empty_list_do_nothing() -> None:
    for view in ("queues", "workers", "failures", "jobs", "job"):
        state = TopState()
        state.show(view)  # type: ignore[arg-type]
        for key in ("up", "down", "enter", "s", "S", "p", "r", "c", "f", "n", "b", "pagedown"):
            press(state, key, [], data_of(), 10)
        assert state.confirm is None


def test_every_key_has_a_line_in_the_help() -> None:
    told = " ".join(keys for keys, _ in HELP)
    for key in ("s", "S", "f", "n", "b", "p", "r", "c", "o", "q", "/", "Enter", "Esc", "Space", "Ctrl-L"):
        assert key in told
