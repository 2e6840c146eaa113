"""Errors as RFC 9457 has them: `application/problem+json` with a stable `type`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ..core.visible import visible
from ..errors import (
    ConfigError,
    HoldfastError,
    JobCancelled,
    JobFailed,
    JobMissing,
    JobTimeout,
    PayloadError,
    PayloadTooLarge,
    PolicyConflict,
    ScheduleMissing,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from .headers import SECURITY_HEADERS

log = logging.getLogger("holdfast")
PREFIX = "urn:holdfast:problem:"
RETRY_AFTER = 2
"""Seconds after which a store that is away may be asked again."""


class Problem(HoldfastError):
    """Something that a caller is told in place of what it asked for."""

    def __init__(
        self, status: int, kind: str, detail: str, *, headers: Mapping[str, str] | None = None, **extra: object
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.headers = dict(headers or {})
        self.extra = extra

    def body(self) -> dict[str, object]:
        """Return it as JSON has it."""
        title = HTTPStatus(self.status).phrase
        return {
            "type": PREFIX + self.kind,
            "title": title,
            "status": self.status,
            "detail": visible(self.detail),
            **self.extra,
        }


KINDS: tuple[tuple[type[HoldfastError], int, str], ...] = (
    (PayloadTooLarge, 413, "payload-too-large"),
    (PayloadError, 422, "payload-invalid"),
    (ScheduleMissing, 404, "schedule-missing"),
    (PolicyConflict, 409, "conflict"),
    (ConfigError, 400, "bad-request"),
    (JobMissing, 404, "job-missing"),
    (JobTimeout, 504, "job-timeout"),
    (JobFailed, 409, "job-failed"),
    (JobCancelled, 409, "job-cancelled"),
    (StoreFull, 507, "store-full"),
    (StoreReadOnly, 503, "store-read-only"),
    (StoreBusy, 503, "store-busy"),
    (StoreError, 503, "store-away"),
    (HoldfastError, 500, "error"),
)
"""What becomes of each error, the first that fits."""


def problem_of(error: Exception) -> Problem:
    """Return what a caller is told of an error."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        kind = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "bad-request")
        return Problem(error.status_code, kind, str(error.detail), headers=error.headers)
    for known, status, kind in KINDS:
        if isinstance(error, known):
            headers = {"Retry-After": str(RETRY_AFTER)} if status == 503 else {}
            path = {"path": error.path} if isinstance(error, PayloadError) and error.path else {}
            return Problem(status, kind, str(error), headers=headers, **path)
    return Problem(500, "error", "the server made an error of its own; its log has more")


def problem_response(error: Exception) -> Response:
    """Return the response for an error."""
    problem = problem_of(error)
    body = msgspec.json.encode(problem.body())
    headers = {**SECURITY_HEADERS, "Cache-Control": "no-store", **problem.headers}
    return Response(body, problem.status, headers, "application/problem+json")


def wants_page(request: Request) -> bool:
    """Return whether a person in a browser asks, and not a program."""
    return "text/html" in request.headers.get("accept", "")
