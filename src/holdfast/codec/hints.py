"""The parameters of a handler and what their annotations mean, as far as they can be resolved."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from types import SimpleNamespace, UnionType
from typing import (
    Annotated,
    Any,
    Never,
    NoReturn,
    ParamSpecArgs,
    ParamSpecKwargs,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)

from ..errors import ConfigError
from .plain import Hint, Value

Parameter = inspect.Parameter


def parameters_of(fn: Callable[..., Value]) -> list[Parameter]:
    """The parameters of a function, or ConfigError if Python cannot tell them."""
    try:
        return list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{fn!r} has no signature that Python can read: wrap it in a function with named parameters"
        ) from error


def hints_of(fn: Callable[..., Value], known: tuple[type, ...] = ()) -> dict[str, Hint]:
    """The annotations of a function; one that cannot be resolved is Any.

    A name that only a type checker imports (`if TYPE_CHECKING:`) is found among the `known` classes.
    """
    target = _annotated(fn)
    try:
        return get_type_hints(target, include_extras=True)
    except Exception:  # one bad annotation spoils all, so each is tried by itself
        names = {each.__name__: each for each in known} | _globals(target)
        annotations = getattr(target, "__annotations__", {})
        return {name: _resolve(annotation, names) for name, annotation in annotations.items()}


def _annotated(fn: Callable[..., Value]) -> Callable[..., Value]:
    """The function behind a partial or a callable object."""
    while isinstance(fn, partial):
        fn = fn.func
    return fn if inspect.isroutine(fn) else type(fn).__call__


def _globals(fn: Callable[..., Value]) -> dict[str, Hint]:
    return dict(getattr(inspect.unwrap(fn), "__globals__", {}))


def _resolve(annotation: Hint, names: dict[str, Hint]) -> Hint:
    holder = SimpleNamespace(__annotations__={"it": annotation})
    try:
        return get_type_hints(holder, globalns=names, include_extras=True)["it"]
    except Exception:  # a name that is nowhere, or whatever the annotation's own code raises
        return Any


def is_injected(hint: Hint, inject: tuple[type, ...]) -> bool:
    """True for a class to inject, a subscription of it, or an optional one."""
    if get_origin(hint) is Annotated:
        return is_injected(get_args(hint)[0], inject)
    if get_origin(hint) in (Union, UnionType):
        members = [member for member in get_args(hint) if member is not type(None)]
        return all(is_injected(member, inject) for member in members)
    kind = get_origin(hint) or hint
    return isinstance(kind, type) and issubclass(kind, inject)


def markers_of(hint: Hint) -> tuple[object, ...]:
    """What `Annotated` says beside the type."""
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def is_foreign(hint: Hint) -> bool:
    """True for a class that no codec knows by itself."""
    from msgspec.inspect import CustomType, type_info  # which a producer does without, but for its errors

    return isinstance(hint, type) and isinstance(type_info(hint), CustomType)


def payload_type(parameter: Parameter, hint: Any) -> Hint:
    """The type under which a parameter travels: `*items: T` is a list of T, `**options: T` a dict of T."""
    if isinstance(hint, ParamSpecArgs | ParamSpecKwargs):
        hint = Any
    unpacked = get_origin(hint) is Unpack
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return list[Any] if unpacked else list[hint]
    if parameter.kind is Parameter.VAR_KEYWORD:
        return get_args(hint)[0] if unpacked else dict[str, hint]
    return hint


def without(hint: Hint, wrapper: type) -> Hint:
    """The annotation with each `wrapper[T]` in it, alone or in a union, replaced by T."""
    if get_origin(hint) in (Awaitable, Coroutine):
        return without(get_args(hint)[-1], wrapper)
    if hint is wrapper:
        return Any
    if get_origin(hint) is wrapper:
        return get_args(hint)[0]
    if get_origin(hint) in (Union, UnionType) and any(wrapper in (get_origin(part), part) for part in get_args(hint)):
        return Union[tuple(without(part, wrapper) for part in get_args(hint))]  # noqa: UP007 (members are computed)
    return hint


def result_type(hint: Hint) -> Hint:
    """The type of a result: the awaited one of an Awaitable, and Any where nothing is promised."""
    if get_origin(hint) in (Awaitable, Coroutine):
        return get_args(hint)[-1]
    return Any if hint in (NoReturn, Never) else hint
