"""Overview, and the page of keyboard shortcuts."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from ....telemetry.recent import Concern, Step
from ...site import site_of
from ..shell import show
from ..view.overview import queue_rows, throughput_plot, throughput_spark, totals, wait_plot

LEVEL = {"problem": "bad", "warning": "warn", "note": "ok"}
MOST_CONCERNS = 12


async def overview(request: Request) -> Response:
    """Show everything at a glance."""
    site = site_of(request)
    recent = site.recent
    queues, now_ms = await site.glance.queues()
    workers = await site.glance.workers()
    step: Step = "minute" if request.query_params.get("step") == "minute" else "second"
    chart, span = recent.chart(None, step), "last 3 hours" if step == "minute" else "last 5 minutes"
    concerns = recent.attention(queues=queues, workers=workers)
    return await show(
        request, "overview", "overview.html", all=recent.traffic(None, 60), hour=recent.traffic(None, 3600),
        totals=totals(queues, workers, now_ms), attention=[_concern(each) for each in concerns[:MOST_CONCERNS]],
        spark=throughput_spark(recent.chart(None, "second"), "completed, last 5 minutes"), step=step,
        throughput=throughput_plot(chart, span), waits=wait_plot(chart, span),
        rows=queue_rows(queues, recent, now_ms),
    )  # fmt: skip


def _concern(concern: Concern) -> dict[str, object]:
    """Return a concern with the page on which it can be seen and mended."""
    where: tuple[str, dict[str, str | None]] = ("queue", {"name": concern.queue})
    if concern.kind in ("dead_worker", "store", "lake", "log"):
        where = ({"dead_worker": "workers", "lake": "lake", "log": "events", "store": ""}[concern.kind], {})
    elif concern.kind in ("failing_task", "stalls"):
        where = ("jobs", {"queue": concern.queue, "task": concern.task, "state": "failed"})
    elif concern.kind in ("backlog", "oldest"):
        where = ("jobs", {"queue": concern.queue, "state": "waiting"})
    return {"level": LEVEL[concern.severity], "text": concern.words, "page": where[0], "link": where[1]}


async def help_page(request: Request) -> Response:
    """Show the keyboard shortcuts, for whoever has no script."""
    return await show(request, "", "help.html")
