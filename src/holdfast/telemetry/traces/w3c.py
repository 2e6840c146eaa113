"""W3C trace context as text: what travels from job to job where OpenTelemetry is not installed, or not set up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

PARENT, STATE, BAGGAGE = "traceparent", "tracestate", "baggage"
FIELDS = (PARENT, STATE, BAGGAGE)
MOST_STATE, MOST_BAGGAGE = 512, 8192
"""Characters that the W3C asks everybody to carry on; what is longer stays behind."""
_fields = re.compile("([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL).fullmatch


class Traceparent(NamedTuple):
    """The fields of a valid `traceparent`."""

    trace_id: str
    span_id: str
    flags: int


def parsed(text: object) -> Traceparent | None:
    """Return the fields of a `traceparent`; `None` for what is none, since headers may hold anything."""
    found = _fields(text) if type(text) is str else None
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or trace_id == "0" * 32 or span_id == "0" * 16:
        return None
    return Traceparent(trace_id, span_id, int(flags, 16))


def trace_id(headers: Mapping[str, str]) -> str | None:
    """Return the trace that a job belongs to by its headers, as 32 hexadecimal digits; `None` for none."""
    found = parsed(headers.get(PARENT)) if headers else None
    return None if found is None else found.trace_id


def context_of(headers: Mapping[str, str]) -> dict[str, str] | None:
    """Return the trace context among a job's headers; `None` where there is none that is valid."""
    if not headers or parsed(headers.get(PARENT)) is None:
        return None
    context = {name: headers[name] for name in FIELDS if name in headers}
    if len(context.get(STATE, "")) > MOST_STATE:
        del context[STATE]
    if len(context.get(BAGGAGE, "")) > MOST_BAGGAGE:
        del context[BAGGAGE]
    return context
