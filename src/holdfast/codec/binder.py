"""A function that binds arguments to parameters as Python does, at the speed of a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any

Binder = Callable[..., dict[str, Any]]


def binder(name: str, parameters: Sequence[Parameter]) -> Binder:
    """A function with these parameters, which returns the arguments that it was called with by name.

    Python binds the arguments and words the errors (`send() missing 1 required positional argument: 'to'`).
    inspect.Signature.bind would cost more than all of the rest of an enqueue.
    """
    names = {each.name for each in parameters}
    unset, payload = _free("unset", names), _free("payload", names)
    source = f"def bind({_header(parameters, unset)}):\n" + "\n".join(_body(parameters, unset, payload))
    # names come from inspect, which allows identifiers only
    scope: dict[str, Any] = {unset: object()}
    exec(source, scope)
    bind: Binder = scope["bind"]
    bind.__name__ = bind.__qualname__ = name
    return bind


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name = f"_{name}"
    return name


def _header(parameters: Sequence[Parameter], unset: str) -> str:
    words = [f"{_STARS.get(each.kind, '')}{each.name}{_default(each, unset)}" for each in parameters]
    kinds = [each.kind for each in parameters]
    if Parameter.KEYWORD_ONLY in kinds and Parameter.VAR_POSITIONAL not in kinds:
        words.insert(kinds.index(Parameter.KEYWORD_ONLY), "*")
    if Parameter.POSITIONAL_ONLY in kinds:
        words.insert(kinds.count(Parameter.POSITIONAL_ONLY), "/")
    return ", ".join(words)


def _default(parameter: Parameter, unset: str) -> str:
    return "" if parameter.default is parameter.empty else f"={unset}"


def _body(parameters: Sequence[Parameter], unset: str, payload: str) -> list[str]:
    required = [each.name for each in parameters if each.default is each.empty and each.kind not in _STARS]
    lines = [f"    {payload} = {{{', '.join(f'{name!r}: {name}' for name in required)}}}"]
    for each in parameters:
        name, kind = each.name, each.kind
        if kind in _STARS:
            value = f"[*{name}]" if kind is Parameter.VAR_POSITIONAL else name
            lines.append(f"    if {name}: {payload}[{name!r}] = {value}")
        elif name not in required:
            lines.append(f"    if {name} is not {unset}: {payload}[{name!r}] = {name}")
    return [*lines, f"    return {payload}"]


_STARS: dict[Any, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
