"""The HTTP API, below `/api/v1`."""

from __future__ import annotations

from starlette.routing import BaseRoute

from . import (
    chains,
    enqueue,
    events,
    index,
    job_actions,
    job_links,
    jobs,
    operations,
    queues,
    recent,
    schedules,
    tasks,
    workers,
)
from .endpoint import Endpoint, route_of

GROUPS = (
    index, jobs, job_links, enqueue, job_actions, operations, queues, tasks, schedules, workers, chains,
    events, recent,
)  # fmt: skip
ENDPOINTS: tuple[Endpoint, ...] = tuple(endpoint for each in GROUPS for endpoint in each.group.endpoints)
"""Every endpoint; the routes and the OpenAPI document are made from these."""


def routes() -> list[BaseRoute]:
    """Return the routes of the API."""
    paths: dict[str, list[Endpoint]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, []).append(endpoint)
    return [route_of(path, endpoints) for path, endpoints in paths.items()]
