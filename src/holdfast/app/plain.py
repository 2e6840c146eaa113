"""Plain queues: payloads that are no arguments of a task, and the function that runs them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from ..codec import Signature
from ..codec.plain import Hint
from ..core.declaration import Settings
from ..errors import ConfigError
from .resource import handler_signature
from .settings import Layer
from .task import AnyTask, Task

if TYPE_CHECKING:
    from .registry import Registry

PlainHandler = str | Callable[..., Any]
"""What runs the payloads of a plain queue: a function, or its import path."""


class QueueDeclaration(msgspec.Struct):
    """What the code says of a queue."""

    name: str
    handler: PlainHandler | None = None
    payload: Hint = None
    """The type of its plain payloads; `None`: nothing is said of it."""
    result: Hint = None
    layer: Layer = Layer("queue", {})
    settings: Settings = {}
    runner: AnyTask | None = None
    """The handler as a task, once it is known."""

    @property
    def types(self) -> tuple[Hint, Hint]:
        """The types of plain payloads and of their results, as far as they are known without an import."""
        if isinstance(self.handler, str | None) or self.runner is None:
            return _any(self.payload), _any(self.result)
        return self.runner.signature.payload, self.runner.signature.returns


def runner_of(registry: Registry, declared: QueueDeclaration) -> AnyTask:
    """Return a plain queue's handler as a task. It is this worker's configuration, never the job's."""
    handler = declared.handler
    assert handler is not None
    fn, path = (load(handler), handler) if isinstance(handler, str) else (handler, None)
    if not callable(fn):
        raise ConfigError(f"{handler!r} is no function but a {type(fn).__name__}")
    if isinstance(fn, Task):
        fn = fn.fn
    path = path or f"{getattr(fn, '__module__', '')}:{getattr(fn, '__qualname__', type(fn).__name__)}"
    signature = plain_signature(fn, declared.payload, declared.result)
    if misfit := signature.plain_misfit():
        raise ConfigError(f"queue {declared.name!r}: handler={path!r}: {misfit}")
    return Task(registry, fn, f"{declared.name}:{path}", declared.name, Layer("task", {}), signature)


def plain_signature(fn: Callable[..., Any], payload: Hint = None, result: Hint = None) -> Signature:
    """Return how a function takes plain payloads: by its annotations, or else as the queue says."""
    return handler_signature(fn, _any(payload), _any(result))


def check_handler(handler: object, queue: str) -> None:
    """Raise for what can be no handler of a plain queue."""
    if handler is None or (callable(handler) and not isinstance(handler, type)):
        return
    if isinstance(handler, type):
        raise ConfigError(f"queue {queue!r}: handler={handler!r} is a class: give a function, or an object to call")
    check_path(handler, f"queue {queue!r}: handler")


def check_path(path: object, name: str = "") -> tuple[str, str]:
    """Return the module and the name of an import path, or raise when it is none; `name` is the option's."""
    module, _, found = path.partition(":") if isinstance(path, str) else ("", "", "")
    if not module or not found or not all(part.isidentifier() for part in (*module.split("."), *found.split("."))):
        raise ConfigError(f"{name + '=' if name else ''}{path!r} is no import path; write package.module:name")
    return module, found


def load(path: str) -> Any:
    """Return the object that `package.module:name` names."""
    module, name = check_path(path)
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except ImportError as error:
        raise ConfigError(f"{path!r} cannot be imported: {error}") from error
    except AttributeError:
        raise ConfigError(f"{path!r}: the module {module} has no {name}") from None
    except Exception as error:
        raise ConfigError(f"{path!r} cannot be imported: {type(error).__name__}: {error}") from error
    return found


def _any(kind: Hint) -> Hint:
    return Any if kind is None else kind
