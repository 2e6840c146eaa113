"""The body of a request: never more than was allowed, and readable twice where a form must be looked at first."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.types import Message, Receive

from ..problem import Problem

MOST_FORM = 64 * 1024


def limited(receive: Receive, most: int) -> Receive:
    """Return a `receive` that raises when more bytes come than are allowed."""
    taken = 0

    async def within() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > most:
            raise too_large(most)
        return message

    return within


def too_large(most: int) -> Problem:
    """Return the problem of a request with too much in it."""
    return Problem(413, "body-too-large", f"a request has at most {most} bytes here", limit=most)


async def form_of(request: Request) -> dict[str, str]:
    """Return the fields of a form, each once: the last."""
    text = (await request.body()).decode("utf-8", "replace")
    return {name: values[-1] for name, values in parse_qs(text, keep_blank_values=True, max_num_fields=1000).items()}


async def form_field(receive: Receive, name: str) -> tuple[str, Receive]:
    """Return a field of a form, and a `receive` that brings the whole form again."""
    data = b""
    while True:
        message = await limited(receive, MOST_FORM - len(data))()
        data += message.get("body", b"")
        if message["type"] != "http.request" or not message.get("more_body"):
            break
    found = parse_qs(data.decode("latin-1")).get(name, [""])[0]
    told = False

    async def again() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": data, "more_body": False}

    return found, again
