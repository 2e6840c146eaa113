"""Resources: what handlers share or are given, opened by whoever runs them, and closed again.

A resource lives with its worker, with each process that runs handlers, or with one attempt. A handler has it by
parameter (`db: Pool = Depends(pool)`), or calls it (`pool()`).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, Generic, Literal, TypeVar, get_args, overload

from ..codec import Signature
from ..codec.hints import hints_of, is_injected, markers_of, parameters_of
from ..codec.plain import Hint
from ..errors import ConfigError
from ..handler.continuation import Continued
from ..handler.job import Job, current_job
from ..handler.opening import Opening

T = TypeVar("T")
ResourceScope = Literal["worker", "process", "attempt"]
"""With whom a resource is opened and closed."""
SEEN_BY: dict[str, tuple[str, ...]] = {
    "worker": ("worker", "process"),
    "process": ("process",),
    "attempt": ("worker", "process", "attempt"),
}
"""What is open whenever a resource of this scope is, so that it may depend on it."""
_DECORATED = (contextmanager(iter).__code__, asynccontextmanager(aiter).__code__)
"""The code of what these make of any function."""
_of_attempt: ContextVar[Mapping[Resource[Any], Any] | None] = ContextVar("holdfast_resources", default=None)


class Resource(Generic[T]):
    """Made by `@app.resource`. Calling it in a handler returns what is open there."""

    def __init__(self, fn: Callable[..., object], scope: ResourceScope = "process") -> None:
        if not inspect.isroutine(fn):
            raise ConfigError(f"@app.resource takes a function, which yields or returns the resource, not {fn!r}")
        self.__name__ = fn.__name__
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn
        if _makes_context_manager(fn):
            raise ConfigError(
                f"resource {self.__name__!r}: leave out @contextmanager or @asynccontextmanager; a function that "
                "yields once is all that @app.resource wants"
            )
        if scope not in get_args(ResourceScope):
            raise ConfigError(f'resource {self.__name__!r}: scope={scope!r}: "worker", "process" or "attempt"')
        self._fn = fn
        self.opening: Opening[T] = Opening(fn)
        """How its function is called, and ended."""
        self.scope: ResourceScope = scope
        self.needs = _needs_of(fn, self.__name__)
        self._check_needs()
        self._stack: AsyncExitStack | None = None
        self._users = 0
        self._turn = asyncio.Lock()
        """A caller that comes while it is opened, or closed, waits for that."""
        self._value: T
        self._overrides: list[T] = []

    def __repr__(self) -> str:
        return f"<Resource {self.__name__}>"

    def __call__(self) -> T:
        """Return what is open."""
        if self._overrides:
            return self._overrides[-1]
        if self.scope == "attempt":
            return self._in_attempt()
        if self._stack is None:
            raise ConfigError(
                f"the resource {self.__name__!r} is not open here: workers and their processes open it, "
                "sandboxes do not; elsewhere use `async with app.resources():`"
            )
        return self._value

    def _in_attempt(self) -> T:
        values = _of_attempt.get()
        if values is None or self not in values:
            raise ConfigError(
                f"the resource {self.__name__!r} is not open here: it is opened for attempts whose handler depends on "
                f"it; give the handler a parameter with the default Depends({self.__name__})"
            )
        value: T = values[self]
        return value

    @property
    def place(self) -> str:
        """The import path by which a process finds it."""
        return f"{self._fn.__module__}:{self._fn.__qualname__}"

    @property
    def gives(self) -> Hint:
        """The type of what is opened, as its function's annotation says; `Any` where it says nothing."""
        hint = hints_of(self._fn, (Job,)).get("return", Any)
        return get_args(hint)[0] if self.opening.yields and get_args(hint) else hint

    @property
    def is_overridden(self) -> bool:
        """True in a block of `app.override`."""
        return bool(self._overrides)

    @contextmanager
    def overridden(self, value: T) -> Iterator[None]:
        """A block in which it is this value, in this process."""
        self._overrides.append(value)
        try:
            yield
        finally:
            self._overrides.remove(value)

    async def open(self) -> None:
        """It can be called. May be nested."""
        async with self._turn:
            if self._users == 0 and not self._overrides:
                stack = AsyncExitStack()
                self._value = await self.opening.enter(stack, **_values(self.needs))
                self._stack = stack
            self._users += 1

    async def close(self) -> None:
        """What was opened is closed, once every `open` has its `close`."""
        async with self._turn:
            self._users -= 1
            if self._users == 0 and self._stack is not None:
                stack, self._stack = self._stack, None
                await stack.aclose()

    def _check_needs(self) -> None:
        """Refuse what would not be open when this is."""
        for name, source in self.needs.items():
            if source is Job and self.scope != "attempt":
                raise ConfigError(
                    f"resource {self.__name__!r}: {name!r} is a Job, and with scope={self.scope!r} it is opened for no "
                    "job: give it scope='attempt'"
                )
            if isinstance(source, Resource) and source.scope not in SEEN_BY[self.scope]:
                raise ConfigError(
                    f"resource {self.__name__!r} has scope={self.scope!r} and depends on {source.__name__!r}, which "
                    f"has scope={source.scope!r} and is not open then: give {self.__name__!r} scope={source.scope!r}"
                )


Source = Resource[Any] | type[Job]
"""Who fills in a parameter: a resource, or the attempt, whose `Job` it is."""


def _values(needs: Mapping[str, Source]) -> dict[str, Any]:
    """Return what a resource that is of no attempt depends on, which are such resources."""
    return {name: source() for name, source in needs.items() if isinstance(source, Resource)}


class Dependency:
    """What `Depends` leaves as the default of a parameter: who fills it in."""

    __slots__ = ("source",)

    def __init__(self, source: Source) -> None:
        self.source = source

    def __repr__(self) -> str:
        return f"Depends({self.source.__name__})"


@overload
def Depends(source: Resource[T]) -> T: ...
@overload
def Depends(source: type[Job]) -> Job: ...
def Depends(source: Resource[Any] | type[Job]) -> Any:
    """Return the default of a parameter that the worker fills in: `db: Pool = Depends(pool)`.

    `job: Job = Depends(Job)` is the attempt's own job.

    To a type checker it is what the resource gives, so that the parameter is one that callers may leave out.
    """
    if source is not Job and not isinstance(source, Resource):
        raise ConfigError(
            f"Depends({getattr(source, '__name__', source)!s}): give a resource, or Job; a function becomes a resource "
            "by @app.resource, or by @app.resource(scope='attempt') when each attempt shall have its own"
        )
    return Dependency(source)


def handler_signature(fn: Callable[..., Any], payload: Hint = Any, result: Hint = Any) -> Signature:
    """Return how a handler is called: what its jobs bring, and what is filled in."""
    supplied = {name: source for name, source in _supplied(fn).items() if source is not None}
    return Signature.of(fn, inject=(Job,), wrapper=Continued, payload=payload, result=result, supplied=supplied)


def _supplied(fn: Callable[..., Any]) -> dict[str, Source | None]:
    """Return each parameter of a function, and what `Depends` names in its default or in its `Annotated`."""
    hints = hints_of(fn, (Job,))
    found: dict[str, Source | None] = {}
    for each in parameters_of(fn):
        marks = (each.default, *markers_of(hints.get(each.name)))
        found[each.name] = next((mark.source for mark in marks if isinstance(mark, Dependency)), None)
    return found


def filled_in(fn: Callable[..., Any], args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, Any]:
    """Return what a handler depends on and was not passed, for one that is called here, with no worker."""
    passed = inspect.signature(fn).bind_partial(*args, **kwargs).arguments
    missing = {name: source for name, source in _supplied(fn).items() if source is not None and name not in passed}
    for name in (name for name, source in missing.items() if source is Job and current_job() is None):
        raise TypeError(f"{fn.__name__}() is called here without {name!r}, the job, which only a worker has: pass one")
    return {name: source() if isinstance(source, Resource) else current_job() for name, source in missing.items()}


def _makes_context_manager(fn: Callable[..., object]) -> bool:
    """Return whether `contextlib` has decorated the function, so that handlers would be given a context manager."""
    return getattr(fn, "__code__", None) in _DECORATED


def _needs_of(fn: Callable[..., Any], name: str) -> dict[str, Source]:
    """Return what a resource's function depends on, by parameter; raise for one that would not be filled in."""
    hints, needs = hints_of(fn, (Job,)), dict[str, Source]()
    supplied = _supplied(fn)
    for each in parameters_of(fn):
        source = supplied[each.name]
        if source is not None or is_injected(hints.get(each.name), (Job,)):
            needs[each.name] = source or Job
        elif each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            raise ConfigError(
                f"resource {name!r}: its parameter {each.name!r} is filled in by nobody: give it a default, such as "
                "Depends(...) with a resource that was made before"
            )
    return needs


def needed(sources: Iterable[object], *, all_scopes: bool = False) -> list[Resource[Any]]:
    """Return the resources that must be opened for an attempt, each once, and after those that it depends on itself."""
    found: dict[Resource[Any], None] = {}
    for source in sources:
        if not isinstance(source, Resource) or source.is_overridden or not (all_scopes or source.scope == "attempt"):
            continue
        found.update(dict.fromkeys(needed(source.needs.values(), all_scopes=all_scopes)))
        found[source] = None
    return list(found)


def show_to_attempt(values: Mapping[Resource[Any], Any]) -> None:
    """Have the resources of an attempt found by those who call them in it."""
    _of_attempt.set(values)


@asynccontextmanager
async def opened(resources: Sequence[Resource[Any]]) -> AsyncIterator[None]:
    """All resources but those of attempts are open in the block, in their order, and closed at its end, last first."""
    async with AsyncExitStack() as stack:
        for resource in (each for each in resources if each.scope != "attempt"):
            await resource.open()
            stack.push_async_callback(resource.close)
        yield
