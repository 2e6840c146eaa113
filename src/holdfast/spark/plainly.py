"""Errors of ours come out of Spark wrapped, with two stack traces round them; here they are themselves again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from .. import errors
from ..errors import HoldfastError

_OURS = re.compile(r"\bholdfast\.errors\.(\w+): (.+)")
_LONGEST = 500


@contextmanager
def told_plainly() -> Iterator[None]:
    """What one of our own raised inside Spark is raised as itself; Spark's own errors are left as they are."""
    try:
        yield
    except HoldfastError:
        raise
    except Exception as error:
        found = ours(error)
        if found is None:
            raise
        raise found from error


@contextmanager
def in_a_line() -> Iterator[None]:
    """What Spark itself could not do is an error of ours, of one line, as a command tells it."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise HoldfastError(
            f"Spark could not go on: {cause(error)}; run it again, nothing is lost or doubled"
        ) from error


def ours(error: Exception) -> HoldfastError | None:
    """Return the error of ours that one of Spark's tells of: the last, since what caused it comes before."""
    for kind, message in reversed(_OURS.findall(str(error))):
        made = getattr(errors, kind, None)
        if isinstance(made, type) and issubclass(made, HoldfastError):
            return made(message.strip())
    return None


def cause(error: Exception) -> str:
    """Return what an error of Spark's says, in a line."""
    java = getattr(error, "java_exception", None)
    said = str(error if java is None else java.toString()).strip().partition("\n")[0]
    return said[:_LONGEST]
