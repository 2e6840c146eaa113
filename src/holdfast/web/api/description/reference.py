"""The page of the HTTP API in the docs, made from the endpoints: `python -m holdfast.web.api.description.reference`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

from .. import ENDPOINTS
from ..endpoint import ROOT, Endpoint
from .openapi import document

PROBLEMS = {
    "bad-request": "400: what was asked for cannot be; the detail is that of the Python error (`ConfigError`)",
    "unknown-parameter": "400: a parameter that the endpoint does not have; `known` lists those that it has",
    "bad-parameter": "400: a parameter with a value that it cannot have, or given twice",
    "bad-body": "400: a body that is not JSON, or not as described",
    "bad-position": "400: it is no position of the event log",
    "empty-filter": "400: an operation on every job of the store must be meant: `all`",
    "unknown-host": "400: the request was sent to another name than this server's",
    "unauthenticated": "401: a token or a login is needed, or it is over",
    "not-an-operator": "403: a viewer changes nothing",
    "read-only": "403: nobody changes anything through this server",
    "not-from-here": "403: a server without credentials answers callers of its own machine alone",
    "other-origin": "403: a page of another site sent it",
    "csrf": "403: a browser sent it without the token of its page (`X-CSRF-Token`)",
    "not-found": "404: there is no such address",
    "job-missing": "404: there is no such job, or it has expired",
    "queue-missing": "404: the store does not know the queue; `create=true` makes it",
    "task-unknown": "404: no worker has declared the task; 400: several queues have it",
    "schedule-missing": "404: there is no such schedule",
    "worker-missing": "404: no worker of that name or session is alive",
    "flow-missing": "404: there is no job of such a flow",
    "operation-missing": "404: this server knows no such operation (any more)",
    "no-data": "404: the job has no such part",
    "method-not-allowed": "405: the address does not take this method",
    "wrong-state": "409: the job is in a state in which that cannot be done",
    "refused": "409: a later job of a chain cannot be updated",
    "chain-awaited": "409: others wait for the chain; `waiting` has them",
    "conflict": "409: the same version of a declaration with another value",
    "job-failed": "409: the job failed",
    "job-cancelled": "409: the job was cancelled",
    "body-too-large": "413: the request has more bytes than `limit`",
    "payload-too-large": "413: a payload or result has more bytes than its task or queue allows",
    "not-json": "415: a body needs `Content-Type: application/json`",
    "payload-invalid": "422: a payload or result that would not come back as it went in; `path` says where",
    "too-many-logins": "429: too many wrong logins; `Retry-After` says when to try again",
    "too-many-operations": "429: as many operations run as may",
    "error": "500: an error of the server's own; its log has more",
    "store-away": "503: the store does not answer; `Retry-After`",
    "store-busy": "503: the store is held by another",
    "store-read-only": "503: the store cannot be written",
    "stopping": "503: the server stops",
    "too-many-streams": "503: as many streams are open as may",
    "job-timeout": "504: the job gave no result in time",
    "store-full": "507: the store has no room left",
}
"""What each `type` means."""
HEAD = """# HTTP API

This page is made from the code: `make docs`. [The guide](../guide/web.md) shows how to use it, and
`/api/v1/openapi.json` is the same as an OpenAPI 3.1 document.

All addresses are below `/api/v1`. Names and ids stand in the query. Bodies are JSON; answers are JSON with stable
keys, the same as `--json` of the [command line](command-line.md). Instants are ISO 8601 in UTC; durations in answers
end in `_ms`, durations in requests are seconds. A program sends `Authorization: Bearer TOKEN`; whatever is not a `GET`
needs an operator.

Lists have `limit` (at most 1000) and `cursor`: the `cursor` of an answer begins the next page, and is null on the
last. A page may be short, or empty, and still have a cursor.
"""
STREAM = """## Messages of a stream

`GET /events/stream` sends
[server-sent events](https://html.spec.whatwg.org/multipage/server-sent-events.html). The `id` of a message is the
position of the log behind it, opaque; a client that comes back sends it as `Last-Event-ID` (or `after`).

| `event` | `data` |
| --- | --- |
| `hello` | the stream has begun: `{"streams"}`; none where the log is read first for what was missed |
| `event` | an event, as in `GET /events` |
| `pulse` | once a second, with `pulse=true`: by queue, how many of each transition, and sums: `wait_ms`, `run_ms` |
| `skipped` | so many `events` were left out within a second: by `rate`, or by this stream's share of 20,000 a second |
| `gap` | so many `events` were trimmed before they could be read; null: more came than the server could follow |
| `reset` | the log is another one than the position was made for; it is read from its start |
| `store_away`, `store_back` | the store does not answer (`detail`), and answers again |
| `end` | the stream ends; `reason` is `stopping`, or `behind`: the client read too slowly, and comes back |

Every 15 seconds without a message there is an `id` alone, which keeps connections open and positions fresh. A client
that comes back to another server may get the last events before its return twice.
"""


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    known = document(ENDPOINTS)
    for group in dict.fromkeys(endpoint.group for endpoint in ENDPOINTS):
        parts.append(f"## {group.capitalize()}\n")
        parts += [_endpoint(each, known) for each in ENDPOINTS if each.group == group]
    parts.append(STREAM)
    parts.append(_problems())
    return "\n".join(parts)


def _endpoint(endpoint: Endpoint, known: dict[str, Any]) -> str:
    operation = known["paths"][ROOT + endpoint.path][endpoint.method.lower()]
    lines = [f"### {endpoint.method} {endpoint.path or '/'}", "", inspect.cleandoc(endpoint.handler.__doc__ or ""), ""]
    if given := operation["parameters"]:
        lines += [f"Query: {', '.join(_parameter(each) for each in given)}.", ""]
    if endpoint.body is not None and (fields := list(_fields(endpoint.body, known))):
        lines += [f"Body: {', '.join(fields)}.", ""]
    if fields := list(_fields(endpoint.answer, known)):
        lines += [f"Answer: {', '.join(fields)}.", ""]
    return "\n".join(lines)


def _parameter(each: dict[str, Any]) -> str:
    return f"`{each['name']}`" + (" (required)" if each["required"] else "")


def _fields(kind: Any, known: dict[str, Any]) -> Iterator[str]:
    """Yield the names of the fields of a type."""
    schema = known["components"]["schemas"].get(getattr(kind, "__name__", ""), {})
    for name in schema.get("properties", {}):
        yield f"`{name}`"


def _problems() -> str:
    rows = [f"| `{kind}` | {text} |" for kind, text in PROBLEMS.items()]
    head = (
        "## Problems\n\nThe `type` of a problem is `urn:holdfast:problem:` and one of these.\n\n| | |\n| --- | --- |\n"
    )
    return head + "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
