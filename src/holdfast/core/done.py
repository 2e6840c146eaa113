"""A coroutine that has nothing left to do."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


class Done(Coroutine[Any, Any, T]):
    """A coroutine whose result is there already: `app.sync` needs no event loop for it, and opens nothing."""

    def __init__(self, result: T) -> None:
        self.result = result

    def __await__(self) -> Generator[Any, Any, T]:
        return self.result
        yield  # which makes it a generator

    def send(self, value: object) -> Any:
        """End with the result."""
        raise StopIteration(self.result)

    def throw(self, *error: Any) -> Any:
        """End with an error."""
        raise error[0] if len(error) == 1 else error[1] or error[0]

    def close(self) -> None:
        """There is nothing to close."""
