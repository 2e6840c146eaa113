"""A transaction that is rolled back."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction


class Undo(Exception):
    """What leaves the block."""


@contextmanager
def undone() -> Iterator[None]:
    """Roll back, by an error, what the block did."""
    try:
        with transaction.atomic():
            yield
            raise Undo
    except Undo:
        pass
