"""The codecs: JSON, MessagePack, or an object of the user's own."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import msgspec

from ..core.size import MOST_SIZE
from ..errors import ConfigError, PayloadError, PayloadTooLarge
from .plain import Hint, TooMany, Value
from .pydantic import dec_hook, enc_hook
from .refusal import blame, split
from .shape import Decode, Encode, Shape, shape_for


@runtime_checkable
class Codec(Protocol):
    """Values <-> bytes.

    Arguments of a call arrive as a dict by name, with a TypedDict as their type; a codec that has no use for
    types may ignore it. What `decode` returns is what the handler is called with.
    """

    name: str

    def encode(self, value: Value, type: Hint = Any, *, path: str = "payload") -> bytes:
        """The bytes of a value that will come back the same; PayloadError for another."""

    def decode(self, data: bytes, type: Hint = Any) -> Value:
        """The value of these bytes; PayloadError if they do not fit the type."""


class _Msgspec:
    """What both formats share: a shape for each annotation, made once."""

    name: str
    title: str
    binary: bool
    pack: Encode

    def __init__(self) -> None:
        self._shapes: dict[Hint, Shape] = {}

    def unpacker(self, annotation: Hint) -> Decode:
        """A decoder to this type; TypeError if msgspec has none."""
        raise NotImplementedError

    def encode(self, value: Value, type: Hint = Any, *, path: str = "payload") -> bytes:
        """The bytes of a value that will come back the same; PayloadError, with the path, for another."""
        try:
            return self.shape(type).encode(value)
        except TooMany as error:
            raise PayloadTooLarge(
                f"{path or 'payload'} has more than {MOST_SIZE} values, as parts of it are in it many times over: "
                "pass each part once, or store it elsewhere and pass where it is",
                path=path, size=MOST_SIZE + 1, limit=MOST_SIZE,
            ) from error  # fmt: skip
        except Exception as error:
            raise blame(self, value, type, path) from error

    def decode(self, data: bytes, type: Hint = Any) -> Value:
        """The value of these bytes; PayloadError, with the path, if they do not fit the type."""
        try:
            return self.shape(type).decode(data)
        except Exception as error:
            raise self._undecodable(error) from error

    def shape(self, annotation: Hint) -> Shape:
        """The shape of an annotation, remembered if the annotation can be hashed."""
        try:
            found = self._shapes.get(annotation)
        except TypeError:
            return shape_for(self, annotation)
        if found is None:
            found = self._shapes[annotation] = shape_for(self, annotation)
        return found

    def _undecodable(self, error: Exception) -> PayloadError:
        if isinstance(error, msgspec.ValidationError):
            path, reason = split(str(error))
            return PayloadError(f"{path} does not fit its annotation: {reason}", path=path)
        return PayloadError(
            f"payload is not {self.title} ({error}): decode it with the codec that wrote it", path="payload"
        )


class JsonCodec(_Msgspec):
    """JSON, readable by anything."""

    name = "json"
    title = "JSON"
    binary = False

    def __init__(self) -> None:
        super().__init__()
        self.pack = msgspec.json.Encoder(enc_hook=enc_hook).encode

    def unpacker(self, annotation: Hint) -> Decode:
        """A decoder to this type; TypeError if msgspec has none."""
        return msgspec.json.Decoder(annotation, dec_hook=dec_hook).decode


class MsgpackCodec(_Msgspec):
    """MessagePack: smaller, and carries bytes and infinities as they are."""

    name = "msgpack"
    title = "MessagePack"
    binary = True

    def __init__(self) -> None:
        super().__init__()
        self.pack = msgspec.msgpack.Encoder(enc_hook=enc_hook).encode

    def unpacker(self, annotation: Hint) -> Decode:
        """A decoder to this type; TypeError if msgspec has none."""
        return msgspec.msgpack.Decoder(annotation, dec_hook=dec_hook).decode


def shape_in(codec: Codec, annotation: Hint) -> Shape | None:
    """Return what one of our codecs has prepared for an annotation; `None` for a codec that is not ours."""
    return codec.shape(annotation) if type(codec) in (JsonCodec, MsgpackCodec) else None  # type: ignore[attr-defined]


def packer_of(codec: Codec) -> Encode | None:
    """Return what one of our codecs encodes checked values with; `None` for a codec that is not ours."""
    return codec.pack if type(codec) in (JsonCodec, MsgpackCodec) else None  # type: ignore[attr-defined]


_BUILT_IN: dict[str, Codec] = {"json": JsonCodec(), "msgpack": MsgpackCodec()}


def codec(choice: str | Codec) -> Codec:
    """The codec of this name, or the given codec itself."""
    if isinstance(choice, str) and choice in _BUILT_IN:
        return _BUILT_IN[choice]
    if isinstance(choice, Codec) and not isinstance(choice, type):
        return choice
    raise ConfigError(f'{choice!r} is not a codec: use "json", "msgpack" or an object with name, encode() and decode()')
