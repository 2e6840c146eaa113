"""Errors of Holdfast come out of Spark wrapped in two stack traces. Here they are unwrapped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from .. import errors
from ..errors import HoldfastError

_OWN = re.compile(r"\bholdfast\.errors\.(\w+): (.+)")
_LONGEST = 500


@contextmanager
def own_errors() -> Iterator[None]:
    """Raise an error of Holdfast's that was raised inside Spark as itself. Leave Spark's own errors as they are."""
    try:
        yield
    except HoldfastError:
        raise
    except Exception as error:
        found = own_error(error)
        if found is None:
            raise
        raise found from error


@contextmanager
def plain_spark_errors() -> Iterator[None]:
    """Raise an error of Spark's own as a `HoldfastError` of one line, for commands."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise HoldfastError(
            f"Spark could not go on: {first_line(error)}; run it again, nothing is lost or doubled"
        ) from error


def own_error(error: Exception) -> HoldfastError | None:
    """Return the last error of Holdfast's that an error of Spark's quotes: what caused it comes before it."""
    for kind, message in reversed(_OWN.findall(str(error))):
        made = getattr(errors, kind, None)
        if isinstance(made, type) and issubclass(made, HoldfastError):
            return made(message.strip())
    return None


def first_line(error: BaseException) -> str:
    """Return the first line of an error, the Java exception's where there is one."""
    java = getattr(error, "java_exception", None)
    return str(error if java is None else java.toString()).strip().partition("\n")[0][:_LONGEST]
