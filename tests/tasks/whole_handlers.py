"""What plain queues run in processes, and the types of their payloads and results."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from holdfast import Job


@dataclass
class Order:
    """A payload."""

    id: int
    lines: list[str]


@dataclass
class Receipt:
    """A result."""

    id: int
    pid: int


def take(order: Order) -> Receipt:
    """Say what came, and where."""
    return Receipt(order.id, os.getpid())


def take_anything(order):  # type: ignore[no-untyped-def]
    """The same, without a word about types."""
    return Receipt(order.id, os.getpid())


def pid_of(job: Job, payload: Any) -> int:
    """Say where it runs."""
    return os.getpid()


def read(payload: str) -> str:
    """Return what is in a file."""
    with open(payload) as file:
        return file.read()
