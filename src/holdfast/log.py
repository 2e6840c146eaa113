"""Lines of a log that job data cannot forge: ids, errors and whatever processes say are shown, never obeyed."""

from __future__ import annotations

import logging
import traceback

from .core.visible import indented, visible

LOGGER = "holdfast"


class _Visible(logging.Filter):
    """Makes every record of the `holdfast` logger one line, with its traceback indented below."""

    def filter(self, record: logging.LogRecord) -> bool:
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
    """What any logger says from this level on is on stderr, unless the program has set up its logs already."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter(form))
    logging.basicConfig(level=level, handlers=[handler])


def shield() -> None:
    """Whatever is logged as `holdfast` is safe to look at, whoever handles it."""
    logger = logging.getLogger(LOGGER)
    if not any(isinstance(each, _Visible) for each in logger.filters):
        logger.addFilter(_Visible())
