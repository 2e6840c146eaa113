"""What errors say. The log has the kind of each error, and no text; a job that has the error still has its message."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from ...app.app import Holdfast
from ...store.contract import Filter
from .delta_table import LakeTable, query
from .schemas import ERRORS, MESSAGES
from .storage.location import LakeLocation

MOST_NEW = 50
"""So many kinds of error are looked up after a batch, those seen last before others."""
MOST_TEXT = 500
LATELY = timedelta(days=7)


class ErrorMessages:
    """The table of messages, one for each kind of error of which the store had a job when the lake was run."""

    def __init__(self, lake: LakeLocation | Path, app: Holdfast) -> None:
        self._app = app
        self._known = LakeTable(lake, MESSAGES)
        self._errors = LakeTable(lake, ERRORS)

    def learn(self, now: datetime) -> int:
        """Look up the messages of errors that were seen lately and have none; return how many were found."""
        self._known.refresh()
        self._errors.refresh()
        found = [self._message(signature, now) for signature in self._unknown(now)]
        rows = [row for row in found if row is not None]
        if rows:
            write_deltalake(self._known.delta, pa.Table.from_pylist(rows, MESSAGES.arrow), mode="append")
            self._known.refresh()
        return len(rows)

    def _unknown(self, now: datetime) -> list[str]:
        since = now - LATELY
        sql = (
            "SELECT e.error_signature FROM errors e "
            "LEFT JOIN messages m ON m.error_signature = e.error_signature "
            f"WHERE m.error_signature IS NULL AND e.day >= DATE '{since:%Y-%m-%d}' "
            f"GROUP BY e.error_signature ORDER BY max(e.minute) DESC LIMIT {MOST_NEW}"
        )
        rows = query({"errors": self._errors, "messages": self._known}, sql).to_pylist()
        return [row["error_signature"] for row in rows]

    def _message(self, signature: str, now: datetime) -> dict[str, Any] | None:
        for job in self._app.sync(self._app.store.jobs(Filter(signature=signature), limit=1)).jobs:
            if job.error is not None and job.error.signature == signature:
                told = {"error_type": job.error.type, "message": job.error.message[:MOST_TEXT]}
                return {"error_signature": signature, "queue": job.queue, **told, "id": job.id, "seen_at": now}
        return None  # the jobs with this error have completed, or are gone
