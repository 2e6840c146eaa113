"""The messages of errors come from jobs that the store still has."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from pathlib import Path

from history import History
from lake_check import rows
from plain_lake import write_lake

from holdfast.spark.lake.messages import ErrorMessages
from holdfast.spark.lake.report import html_page, make_report


def test_each_kind_of_error_is_shown_with_a_message_that_is_looked_up_once(tmp_path: Path) -> None:
    with History("sqlite", tmp_path) as history:
        history.go_on()
        events = [event for event in history.events() if event.transition != "operate"]
        now = datetime.fromtimestamp(history.clock.now_ms / 1000, UTC)
        lake = write_lake(tmp_path / "lake", events, now)
        messages = ErrorMessages(lake, history.app)
        kinds = {event.error_signature for event in events} - {None}
        found = messages.learn(now)
        assert 0 < found <= len(kinds)
        again = messages.learn(now)
        assert again == 0
    told = {row["error_signature"]: row for row in rows(lake, "messages")}
    assert len(told) == found
    assert {row["message"] for row in told.values()} >= {"no good"}
    report = make_report(lake)
    assert {row["message"] for row in report.errors} >= {"no good"}
    shown = html_page(report)
    for row in report.errors:
        assert row["message"] is None or f"{row['error_type']}: {escape(row['message'])}" in shown
