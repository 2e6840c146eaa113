"""The events of a batch, as Spark reads them from the store."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from ...app import Holdfast
from ..schema import EVENTS


def events_between(spark: SparkSession, app: Holdfast, after: str | None, upto: str) -> DataFrame:
    def t(ms):
        return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)

    rows = []
    while True:
        page = app.sync(app.store.events(after, limit=1000))
        for e in page.events:
            epoch, seq = e.position.split(":")
            if int(seq) > int(upto.split(":")[1]):
                continue
            c = e.counters
            rows.append(
                (
                    epoch,
                    int(seq),
                    t(e.at_ms),
                    e.queue,
                    e.id,
                    e.run,
                    e.attempt,
                    e.transition,
                    str(e.state) if e.state else None,
                    e.cause,
                    e.task,
                    e.worker,
                    e.key,
                    e.priority,
                    t(e.run_at_ms),
                    c.failures,
                    c.stalls,
                    c.timeouts,
                    c.releases,
                    e.wait_ms,
                    e.run_ms,
                    e.error_type,
                    e.error_signature,
                    e.progress,
                    e.message,
                    e.payload,
                )
            )
        if not page.events:
            break
        after = page.position
    return spark.createDataFrame(rows, EVENTS)
