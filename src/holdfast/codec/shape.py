"""What a codec has prepared for one annotation: how to check a value, encode it and decode it.

`encode` raises anything at all for a value that would come back different; `blame` finds the words.
"""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import Any, Protocol, TypedDict

import msgspec

from .compare import compare
from .plain import INT_MAX, INT_MIN, Check, Hint, Value, is_plain, kinds_of

_values, _UNSET = msgspec.structs.astuple, msgspec.UNSET
Encode = Callable[[Value], bytes]
Decode = Callable[[bytes], Value]


class Misfit(Exception):
    """The value is not one of the plain values that its annotation allows."""


class Unsupported(Exception):
    """The value is not plain, and msgspec cannot decode its annotation, for the reason given."""


class Coder(Protocol):
    """One format of msgspec, as far as shapes need it."""

    binary: bool
    pack: Encode

    def unpacker(self, annotation: Hint) -> Decode:
        """A decoder to this type; TypeError if msgspec has none."""


class Shape(Protocol):
    """What a codec has prepared for one annotation, which `annotation` spells as msgspec decodes it."""

    annotation: Hint

    def encode(self, value: Value) -> bytes:
        """The bytes of a value that will come back the same; any exception for another."""

    def decode(self, data: bytes) -> Value:
        """The value of these bytes; any exception if they do not fit the annotation."""


class PlainShape:
    """Values checked by their exact types, which need no trial decoding."""

    def __init__(self, wire: Coder, annotation: Hint, kinds: frozenset[type], unsupported: str = "") -> None:
        self.annotation = Any if unsupported else annotation
        self.kinds = kinds
        self.check: Check = check_for(kinds, wire.binary)
        self.decode = wire.unpacker(self.annotation)
        self._pack = wire.pack
        self._unsupported = unsupported

    def encode(self, value: Value) -> bytes:
        """The bytes of a plain value."""
        if not self.check(value):
            raise Unsupported(self._unsupported) if self._unsupported else Misfit
        return self._pack(value)


class Rich:
    """Values that are decoded once, to see that they come back the same."""

    def __init__(self, wire: Coder, annotation: Hint) -> None:
        self.annotation = annotation
        self.decode = wire.unpacker(annotation)
        self._pack = wire.pack

    def encode(self, value: Value) -> bytes:
        """The bytes of a value that equals its decoding."""
        data = self._pack(value)
        compare(value, self.decode(data))
        return data


class Arguments:
    """Arguments by name: plain ones are checked, and only the rich ones are decoded and compared."""

    def __init__(self, wire: Coder, annotation: Hint) -> None:
        self.annotation = annotation
        shapes = {name: shape_for(wire, hint) for name, hint in annotation.__annotations__.items()}
        self._checks = {name: shape.check for name, shape in shapes.items() if isinstance(shape, PlainShape)}
        self._names = tuple(shapes)
        self._wire, self._shapes = wire, shapes
        self._pack = wire.pack
        self._unpack = wire.unpacker(_struct(shapes))

    def encode(self, value: Value) -> bytes:
        """The bytes of arguments that will all come back the same."""
        checks = self._checks
        rich = []
        for name, argument in value.items():
            check = checks.get(name)
            if check is None:
                rich.append(name)
            elif not check(argument):
                raise Misfit
        data = self._pack(value)
        if rich:
            back = self.decode(data)
            for name in rich:
                compare(value[name], back[name])
        return data

    def decoder_in_order(self) -> Callable[[bytes], tuple[Value, ...]]:
        """Return what decodes payloads in which every argument is given, to the values in the order of the names."""
        unpack = self._wire.unpacker(_struct(self._shapes, msgspec.NODEFAULT))
        return lambda data: _values(unpack(data))

    def decode(self, data: bytes) -> dict[str, Value]:
        """The arguments that were passed, by name."""
        found: dict[str, Value] = {}
        for name, value in zip(self._names, _values(self._unpack(data))):  # noqa: B905 - `strict` doubles the time
            if value is not _UNSET:
                found[name] = value
        return found


def check_for(kinds: frozenset[type], binary: bool) -> Check:
    """A check for values of these types, as cheap as the types allow."""
    if not kinds:
        return lambda value: is_plain(value, binary)
    if kinds <= {str, bool, NoneType}:
        return lambda value: type(value) in kinds
    if kinds <= {str, bool, NoneType, int}:
        return lambda value: type(value) in kinds and (type(value) is not int or INT_MIN <= value <= INT_MAX)
    if float in kinds and int not in kinds:
        return lambda value: (type(value) in kinds and is_plain(value, binary)) or is_exact_float(value)
    return lambda value: type(value) in kinds and is_plain(value, binary)


def is_exact_float(value: Value) -> bool:
    """True for an int that becomes an equal float."""
    return type(value) is int and INT_MIN <= value <= INT_MAX and float(value) == value


def _struct(shapes: dict[str, Shape], default: Any = msgspec.UNSET) -> type[msgspec.Struct]:
    """A Struct that refuses unknown arguments, which msgspec does not do for a TypedDict."""
    fields = [(f"_{index}", shape.annotation, default) for index, shape in enumerate(shapes.values())]
    # a parameter may have a name that a Struct needs for itself, so the names live in the data only
    rename = {f"_{index}": name for index, name in enumerate(shapes)}
    return msgspec.defstruct("Arguments", fields, rename=rename, forbid_unknown_fields=True)


def arguments_type(name: str, fields: dict[str, Any]) -> Value:
    """A TypedDict of arguments, any of which may be left out, marked for `shape_for`."""
    make: Any = TypedDict
    made = make(name, fields, total=False)
    made.__holdfast_arguments__ = True
    return made


def shape_for(wire: Coder, annotation: Hint) -> Shape:
    """The shape of an annotation. One that msgspec cannot decode carries plain values only."""
    if getattr(annotation, "__holdfast_arguments__", False):
        return Arguments(wire, annotation)
    kinds = kinds_of(annotation)
    if kinds is not None:
        return PlainShape(wire, annotation, kinds)
    try:
        return Rich(wire, annotation)
    except Exception as error:
        return PlainShape(wire, Any, frozenset(), unsupported=str(error))
