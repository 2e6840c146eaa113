"""A small shop that shows the queue at work, kills one of its own workers, and counts what is left."""

from .command import demo

__all__ = ["demo"]
