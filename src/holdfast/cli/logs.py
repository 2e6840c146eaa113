"""`--log-format`, and the logs of a command: lines on stderr, for people or as JSON."""

from __future__ import annotations

import logging
import os
import sys

import click

from ..log import LOGGER
from ..telemetry.line_handler import FormatName, log_to_stderr
from ..telemetry.lines import JsonFormat
from .output import write_notes_as

log_format_option = click.option(
    "--log-format", type=click.Choice(["human", "json"]), default="human", show_default=True,
    envvar="HOLDFAST_LOG_FORMAT", help="Lines of the log for people, or as JSON. [env: HOLDFAST_LOG_FORMAT]",
)  # fmt: skip


def set_up_logs(level: str, form: FormatName) -> None:
    """Log to stderr from this level on; as JSON, so that whatever the command says there is a line of the log, too."""
    log_to_stderr(level.upper(), form)
    write_notes_as(_note if form == "json" else None)


def is_logged_here() -> bool:
    """Return whether the log appears where this command prints, as on a terminal: then it need not repeat it."""
    try:
        same = os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (OSError, ValueError):  # a stream that is no file, or is closed
        return False
    logger: logging.Logger | None = logging.getLogger(LOGGER)
    if not same or logger is None or not logger.isEnabledFor(logging.INFO):
        return False
    while logger is not None:
        for handler in logger.handlers:
            if handler.level <= logging.INFO and getattr(handler, "stream", None) in (sys.stdout, sys.stderr):
                return True
        logger = logger.parent if logger.propagate else None
    return False


def _note(text: str) -> str:
    return JsonFormat().text(logging.WARNING, LOGGER, "note", text)
