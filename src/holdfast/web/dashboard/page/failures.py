"""Failures by their signature."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from ....telemetry.recent import FailureGroup
from ...site import site_of
from ..draw.chart import sparkline
from ..filters import check_filters
from ..shell import show

MOST_GROUPS = 100


@dataclass(frozen=True)
class FailureRow:
    """Errors of one kind, with their last hour as a picture."""

    group: FailureGroup
    spark: Markup

    @property
    def dead(self) -> int:
        """Dead letters: as counted last, or as many as were seen to fail since."""
        return max(self.group.dead, self.group.failed)


async def failures(request: Request) -> Response:
    """Show what fails, by signature."""
    recent = site_of(request).recent
    check_filters(request.query_params, ["queue"])
    queue = request.query_params.get("queue", "")
    groups = [each for each in recent.failures() if not queue or queue in each.queues]
    rows = [
        FailureRow(each, sparkline(each.trend, "failed", f"{sum(each.trend)} errors in the last hour"))
        for each in groups[:MOST_GROUPS]
    ]
    return await show(request, "failures", "failures.html", groups=rows, queue=queue, follow=recent.state())
