"""What the port of a worker answers: `/live`, `/ready`, `/metrics` and `/metrics/store`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from ..metrics.exposition import OPEN, PLAIN, exposition, wants_open
from ..metrics.tally import Sample
from .health import Health, HealthReport
from .http import JSON, HttpRequest, HttpResponse, Route

LIVE, READY, METRICS, STORE_METRICS = "/live", "/ready", "/metrics", "/metrics/store"
Samples = Callable[[], Awaitable[Iterable[Sample]]]


def health_routes(health: Health) -> dict[str, Route]:
    """Return the routes of probes."""
    return {LIVE: _report_of(health.live), READY: _report_of(health.ready)}


def metrics_route(samples: Samples) -> Route:
    """Return the route of a scraper."""

    async def answer(request: HttpRequest) -> HttpResponse:
        open = wants_open(request.headers.get("accept", ""))
        text = exposition(await samples(), open=open)
        return HttpResponse(text.encode("utf-8", "replace"), OPEN if open else PLAIN)

    return answer


def _report_of(ask: Callable[[], HealthReport]) -> Route:
    async def answer(request: HttpRequest) -> HttpResponse:
        report = ask()
        return HttpResponse(report.json(), JSON, 200 if report.ok else 503)

    return answer
