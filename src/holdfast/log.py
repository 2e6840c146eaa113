"""Log lines that job data cannot forge: ids, errors and output of processes are shown as plain text."""

from __future__ import annotations

import functools
import inspect
import logging
import re
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .core.visible import indented, visible
from .errors import ConfigError

LOGGER = "holdfast"
_EVENT = re.compile(r"([a-z][a-z0-9_]*): ")
"""The first word of a line: a stable name of what it tells."""
_own = logging.getLogger(LOGGER)
_given: ContextVar[logging.Logger | None] = ContextVar("holdfast_logger", default=None)


class _Named(logging.Logger):
    """The `holdfast` logger, which passes records on to the logger that the app or worker was given, if any."""

    def isEnabledFor(self, level: int) -> bool:
        given = _given.get()
        return super().isEnabledFor(level) if given is None else given.isEnabledFor(level)

    def handle(self, record: logging.LogRecord) -> None:
        given = _given.get()
        if given is None:
            super().handle(record)
        elif not self.disabled and self.filter(record):
            record.name = given.name
            given.handle(record)


class _Visible(logging.Filter):
    """Makes every record of the `holdfast` logger one line, with its traceback below, and names its event."""

    def filter(self, record: logging.LogRecord) -> bool:
        if "event" not in record.__dict__ and isinstance(record.msg, str) and (found := _EVENT.match(record.msg)):
            record.event = found[1]
        try:
            told = record.getMessage()
        except Exception:
            return True  # a record that cannot be formatted is told by its handler
        if (text := visible(told)) != told:
            record.msg, record.args = text, ()
        _indent(record)
        return True


class LineFormatter(logging.Formatter):
    """Formats records of any logger so that each begins a line, and nothing in it does."""

    def format(self, record: logging.LogRecord) -> str:
        _indent(record)
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = visible(record.message)
        return super().formatMessage(record)


def _indent(record: logging.LogRecord) -> None:
    if record.exc_info and record.exc_info[0] is not None and not record.exc_text:
        record.exc_text = indented("".join(traceback.format_exception(*record.exc_info)).rstrip("\n"))


def to_stderr(level: str, form: str) -> None:
    """Log to stderr from this level on, unless the program has set up its logs already."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter(form))
    logging.basicConfig(level=level, handlers=[handler])


def shield() -> None:
    """Make all records of the `holdfast` logger safe to look at, whatever handler writes them."""
    logger = logging.getLogger(LOGGER)
    if type(logger) is logging.Logger:  # and nothing of the program's own
        logger.__class__ = _Named
    if not any(isinstance(each, _Visible) for each in logger.filters):
        logger.addFilter(_Visible())


def check_logger(given: object) -> logging.Logger | None:
    """Return the logger that an app or worker was given, by itself or by name; `None` is Holdfast's own."""
    if given is not None and not isinstance(given, logging.Logger) and not (isinstance(given, str) and given):
        raise ConfigError(f"logger={given!r}: the name of a logger, or a logging.Logger")
    logger = logging.getLogger(given) if isinstance(given, str) else given
    return None if logger is logging.getLogger(LOGGER) else logger


def target() -> logging.Logger:
    """Return the logger to which Holdfast's lines go here."""
    return _given.get() or _own


def is_plain(logger: logging.Logger) -> bool:
    """Return whether nothing of the program's own looks at the records of this logger before its handlers do."""
    return all(isinstance(each, _Visible) for each in logger.filters)


@contextmanager
def logging_as(logger: logging.Logger | None) -> Iterator[None]:
    """Send what Holdfast logs in the block, and in tasks that begin there, to this logger."""
    if logger is None:
        yield
        return
    token = _given.set(logger)
    try:
        yield
    finally:
        _given.reset(token)


def with_logger(work: Callable[[], None]) -> Callable[[], None]:
    """Return the work of a thread, which logs to the same logger as the caller."""
    logger = _given.get()

    def run() -> None:
        with logging_as(logger):
            work()

    return run


def name_calls(target: object, logger: logging.Logger) -> None:
    """Send what is logged in the public coroutine methods of an object to this logger."""
    for name, method in inspect.getmembers(target, inspect.iscoroutinefunction):
        if not name.startswith("_"):
            setattr(target, name, _as(method, logger))


def _as(method: Callable[..., Awaitable[object]], logger: logging.Logger) -> Callable[..., Awaitable[object]]:
    @functools.wraps(method)
    async def call(*args: object, **kwargs: object) -> object:
        with logging_as(logger):
            return await method(*args, **kwargs)

    return call
