"""Arguments and results <-> bytes, refusing whatever would come back different.

A codec turns one value into bytes and back. `Signature` uses one to carry the arguments of a call, and what
the call returned, by the annotations of the handler.

What comes back as it went in, and so is accepted:

- Without an annotation, or with a plain one (`Any`, `dict`, `list`, `str`, `int`, `float`, `bool`, `None`):
  exactly these types and no subclasses, string keys, at most 64 levels, integers of 64 bits (from -2**63 to
  2**64 - 1), finite floats and text without lone surrogates. MessagePack carries bytes and infinities too.
  NaN is refused everywhere, as it cannot be checked whether it came back.
- With any other annotation: what equals its own decoding, type for type. Dataclasses, msgspec and pydantic
  models, TypedDict, NamedTuple, datetime, UUID, Decimal, Enum, tuples, sets, bytes, Literal, and containers
  and unions of these. Three things are equal though not identical: an int where a float is annotated comes
  back as that float, a datetime keeps its instant but has a fixed offset instead of a zone, and dataclass
  fields with `compare=False` are not compared.

Nothing is ever unpickled: data names no class, annotations do.
"""

from __future__ import annotations

from .format import Codec, JsonCodec, MsgpackCodec, codec
from .signature import Signature

__all__ = ["Codec", "JsonCodec", "MsgpackCodec", "Signature", "codec"]
