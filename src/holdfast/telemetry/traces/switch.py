"""Whether spans are made. Until a tracer provider is set, nothing of OpenTelemetry is imported, and a look costs next
to nothing; a provider that is set later, after the app was made, is found at the next look."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from .spans import Tracing

log = logging.getLogger("holdfast")
PARENT_UP_TO = 100
"""A job is a child of the span that sent it when no more jobs than this were sent with it."""
_UNSEEN = object()
_reported: set[type] = set()


def report(error: Exception) -> None:
    """Log what a provider, a sampler or a processor raised, once for each kind: no job fails for its trace."""
    if type(error) not in _reported:
        _reported.add(type(error))
        log.warning("trace_failed: %s: %s", type(error).__name__, error, exc_info=error)


@dataclass(frozen=True)
class TraceSettings:
    """What `configure` sets, for the whole process."""

    parent_up_to: int = PARENT_UP_TO
    settle: bool = True
    tracer_provider: TracerProvider | None = None


class _Switch:
    """The settings, and what makes spans for the provider that was seen last."""

    def __init__(self) -> None:
        self.settings = TraceSettings()
        self.forget()

    def forget(self) -> None:
        # A provider that the environment names is made at the first look, by OpenTelemetry itself.
        self.seen: object = _UNSEEN if "OTEL_PYTHON_TRACER_PROVIDER" in os.environ else None
        self.tracing: Tracing | None = None


_switch = _Switch()


def configure(
    *, parent_up_to: int = PARENT_UP_TO, settle: bool = True, tracer_provider: TracerProvider | None = None
) -> None:
    """Say how this process traces: once, at its start. What is left out has its default.

    parent_up_to: a `process` span is a child of the `send` span, and linked to it, when at most so many jobs were sent
    together; above that it begins a trace of its own, and is only linked. 0 is always a trace of its own.
    settle: whether a span is made for each call that settles attempts which were recorded.
    tracer_provider: the provider to use; `None` is OpenTelemetry's global one.
    """
    if type(parent_up_to) is not int or parent_up_to < 0:
        raise ConfigError(f"parent_up_to={parent_up_to!r}: a whole number from 0")
    _switch.settings = TraceSettings(parent_up_to, settle, tracer_provider)
    _switch.forget()


def tracing() -> Tracing | None:
    """Return what makes spans; `None` while there is no tracer provider."""
    switch = _switch
    provider: object = switch.settings.tracer_provider
    if provider is None:
        api = sys.modules.get("opentelemetry.trace")
        if api is None:
            return None
        # The public way in reads the environment at every call, which costs a microsecond while nothing is set.
        provider = getattr(api, "_TRACER_PROVIDER", _UNSEEN)
    if provider is switch.seen:
        return switch.tracing
    return _resolved(switch, provider)


def _resolved(switch: _Switch, seen: object) -> Tracing | None:
    """Return what makes spans for the provider of this moment; `None` where it makes none."""
    from opentelemetry import trace

    from .spans import Tracing

    try:
        provider = switch.settings.tracer_provider or trace.get_tracer_provider()
        is_none = isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider)
        switch.tracing = None if is_none else Tracing(provider, switch.settings)
        if not isinstance(provider, trace.ProxyTracerProvider):
            switch.seen = seen
    except Exception as error:  # of a provider that is not ours, which must not stop a worker
        log.warning("traces_off: the tracer provider cannot be used: %s: %s", type(error).__name__, error)
        switch.tracing, switch.seen = None, seen
    return switch.tracing
