"""The arguments and the result of one handler, as payloads.

A payload is an object of the arguments by name. Arguments that were not passed are left out, so that the
worker's own defaults apply. `*items` travels as a list and `**options` as an object, each under its own
name, which no other parameter can have; an empty one is left out too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import ConfigError, PayloadError
from .binder import Binder, binder
from .format import Codec
from .hints import Parameter, hints_of, is_injected, parameters_of, payload_type, result_type, without
from .plain import Hint, Value, kinds_of
from .refusal import type_name
from .shape import arguments_type

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


class Signature:
    """How the arguments and the result of one handler become bytes and come back.

    `name` is the handler's, `type` a TypedDict of its arguments, `returns` the type of its result, and
    `injected` names the parameters that are filled in with the job, `supplied` those that are with something else.
    """

    def __init__(self, name: str, parameters: Sequence[Parameter], hints: Mapping[str, Hint]) -> None:
        self.name = name
        self.injected: tuple[str, ...] = ()
        self.supplied: Mapping[str, Value] = {}
        self.returns = result_type(hints.get("return", Any))
        self.type = arguments_type(
            f"{name} arguments",
            {each.name: payload_type(each, hints.get(each.name, Any)) for each in parameters},
        )
        self._bind = binder(name, parameters)
        self._names = frozenset(each.name for each in parameters)
        self._required = frozenset(
            each.name for each in parameters if each.default is each.empty and each.kind not in _VARIADIC
        )
        self._positional = [each.name for each in parameters if each.kind in _POSITIONAL]
        self._positional_only = [each.name for each in parameters if each.kind is each.POSITIONAL_ONLY]
        self._rest = _name_of(parameters, Parameter.VAR_POSITIONAL)
        self._options = _name_of(parameters, Parameter.VAR_KEYWORD)
        self._by_name = not (self._positional_only or self._rest or self._options)
        self.is_by_position = (
            all(each.kind is Parameter.POSITIONAL_OR_KEYWORD for each in parameters)
            and len(self._required) == len(parameters)
        )  # fmt: skip
        """True when every payload has all arguments, and all can be passed by position."""
        self.payload: Value = self.type.__annotations__[self._positional[0]] if self._positional else Any
        """The type of the one payload that it takes as the handler of a plain queue."""

    @classmethod
    def of(
        cls,
        fn: Callable[..., Value],
        *,
        inject: tuple[type, ...] = (),
        wrapper: type | None = None,
        payload: Hint = Any,
        result: Hint = Any,
        supplied: Mapping[str, Value] | None = None,
    ) -> Signature:
        """The signature of a handler, without the parameters that are annotated with a class of `inject`.

        A return annotation `wrapper[T]` counts as T. `payload` and `result` are the types of the one payload that it
        takes and of its result, where its annotations do not say. `supplied` names further parameters that no payload
        has, with whatever fills them in.
        """
        name = getattr(fn, "__name__", None) or type(fn).__name__
        hints = hints_of(fn, inject if wrapper is None else (*inject, wrapper))
        if wrapper is not None and "return" in hints:
            hints["return"] = without(hints["return"], wrapper)
        parameters = parameters_of(fn)
        injected = [each for each in parameters if is_injected(hints.get(each.name), inject)]
        supplied = {name: source for name, source in (supplied or {}).items() if name not in {i.name for i in injected}}
        filled = [each for each in parameters if each in injected or each.name in supplied]
        _check_injected(name, filled, parameters)
        made = cls(name, [each for each in parameters if each not in filled], hints)
        made.injected, made.supplied = tuple(each.name for each in injected), supplied
        made.payload = payload if made.payload is Any else made.payload
        made.returns = result if made.returns is Any else made.returns
        if filled and made._options:
            made._bind = _reserving(tuple(each.name for each in filled), made._bind)
        return made

    @property
    def required(self) -> frozenset[str]:
        """The parameters that a call must give."""
        return self._required

    def misfit(self, other: Signature) -> str:
        """Return why a payload of another signature would not fit this one, or nothing when all of them would."""
        for name in sorted(other._names - self._names):
            return f"{self.name}() takes no {name!r}, which {other.name}() takes"
        for name in sorted(self._required - other._required):
            return f"{self.name}() needs {name!r}, which a call of {other.name}() need not have"
        wanted, sent = self.type.__annotations__, other.type.__annotations__
        for name in sorted(self._names & other._names):
            mine, theirs = kinds_of(wanted[name]), kinds_of(sent[name])
            if mine and theirs and not _may_be(theirs, mine):
                here, there = type_name(wanted[name]), type_name(sent[name])
                return f"{name!r} is {here} in {self.name}() and {there} in {other.name}()"
        return ""

    def bind(self, args: Sequence[Value], kwargs: Mapping[str, Value]) -> dict[str, Value]:
        """The arguments by name, or the TypeError that calling the handler would raise."""
        return self._bind(*args, **kwargs)

    def encode(self, args: Sequence[Value], kwargs: Mapping[str, Value], codec: Codec) -> bytes:
        """The payload of a call; TypeError if the call is wrong, PayloadError if a value would change."""
        return codec.encode(self._bind(*args, **kwargs), self.type, path="")

    def decode(self, data: bytes, codec: Codec) -> tuple[tuple[Value, ...], dict[str, Value]]:
        """The arguments to call the handler with; PayloadError if the payload does not fit it."""
        payload = self.arguments(data, codec)
        return ((), payload) if self._by_name else self._split(payload)

    def arguments(self, data: bytes, codec: Codec) -> dict[str, Value]:
        """The arguments of a payload by the names of their parameters; PayloadError if it does not fit the handler."""
        try:
            payload = codec.decode(data, self.type)
        except Exception as error:
            raise self._misfit(str(error), getattr(error, "path", "")) from error
        if type(payload) is not dict:
            raise self._misfit(f"payload is a {type(payload).__name__}, not an object of arguments")
        if payload.keys() != self._names and not (self._required <= payload.keys() <= self._names):
            self._refuse_names(payload)
        return payload

    def plain_misfit(self) -> str:
        """Return why it cannot be called with one payload, or nothing when it can."""
        if not self._positional and not self._rest:
            return f"{self.name}() takes no payload; give it a parameter for it"
        if more := sorted(self._required - set(self._positional[:1])):
            return f"{self.name}() needs {more[0]!r}, and a plain queue gives it one payload"
        return ""

    def take_one(self, data: bytes, codec: Codec) -> tuple[tuple[Value, ...], dict[str, Value]]:
        """The arguments to call a handler with that takes a plain payload, whatever is injected before it."""
        try:
            payload = codec.decode(data, self.payload)
        except Exception as error:
            raise self._misfit(str(error), getattr(error, "path", "")) from error
        if (self.injected or self.supplied) and self._positional and not self._positional_only:
            return (), {self._positional[0]: payload}
        return (payload,), {}

    def encode_result(self, value: Value, codec: Codec) -> bytes:
        """The bytes of a result; PayloadError if it would change or does not fit the return annotation."""
        return codec.encode(value, self.returns, path="result")

    def decode_result(self, data: bytes, codec: Codec) -> Value:
        """The result of these bytes, as the return annotation says."""
        try:
            return codec.decode(data, self.returns)
        except Exception as error:
            raise PayloadError(
                f"the result of {self.name}() cannot be read ({error}): another version of the code may "
                "have written it; read it with that version, or run the job again",
                path=getattr(error, "path", ""),
            ) from error

    def _split(self, payload: dict[str, Value]) -> tuple[tuple[Value, ...], dict[str, Value]]:
        rest = payload.pop(self._rest, ())
        options = payload.pop(self._options, {})
        names = self._positional if rest else [name for name in self._positional_only if name in payload]
        if missing := [name for name in names if name not in payload]:
            raise self._misfit(f"argument {missing[0]!r} is missing before *{self._rest}", missing[0])
        args = tuple(payload.pop(name) for name in names)
        return (*args, *rest), payload | options

    def _refuse_names(self, payload: dict[str, Value]) -> None:
        for name in payload.keys() - self._names:
            raise self._misfit(f"argument {name!r} is unknown", name)
        for name in self._required - payload.keys():
            raise self._misfit(f"argument {name!r} is missing", name)

    def _misfit(self, reason: str, path: str = "") -> PayloadError:
        return PayloadError(
            f"{self.name}() cannot take this payload ({reason}): another version of the code may have sent "
            f"it; let {self.name}() accept what older producers send, or cancel the job and enqueue it again",
            path=path,
        )


def _may_be(sent: frozenset[type], wanted: frozenset[type]) -> bool:
    """True when some value of these types fits one of those; an int will do for a float."""
    return bool(sent & wanted) or (float in wanted and int in sent)


def _name_of(parameters: Sequence[Parameter], kind: Value) -> str:
    return next((each.name for each in parameters if each.kind is kind), "")


def _reserving(injected: tuple[str, ...], bind: Binder) -> Binder:
    """A binder that keeps the injected names out of `**options`, where Python would put them."""

    def reserving(*args: Value, **kwargs: Value) -> dict[str, Value]:
        if taken := [name for name in injected if name in kwargs]:
            raise TypeError(f"{bind.__name__}() got an unexpected keyword argument {taken[0]!r}")
        return bind(*args, **kwargs)

    return reserving


def _check_injected(name: str, injected: list[Parameter], parameters: list[Parameter]) -> None:
    """Each injected parameter can be passed by name, whatever the payload holds."""
    rest = _name_of(parameters, Parameter.VAR_POSITIONAL)
    for each in injected:
        if each.kind in _VARIADIC or each.kind is each.POSITIONAL_ONLY or (rest and each.kind in _POSITIONAL):
            raise ConfigError(f"{name}() must take {each.name!r} by keyword: declare it after a * in the signature")
