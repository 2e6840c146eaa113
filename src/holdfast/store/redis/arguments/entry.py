"""How an entry point is described, and what follows from it: its header in Lua, and the Lua that reads and answers it.

An entry point is a function that the library registers in the server. Its class has a field for each argument, in
their order behind `now`, which comes first in every call ("" for the server's own time). `reply` is what it answers: a
named tuple, whose fields are those of an array in their order; or `bytes`, `int` or `list`, handed on as it is. `takes`
are groups of arguments that follow, over and over; `gives` are arrays, or parts of flat lists, within the reply.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar, get_type_hints

import msgspec

R = TypeVar("R")
Flat = list[Any]
"""A list as the server gave it: bytes, whole numbers, `None`, and lists of them; or as it is to be sent."""
Group = type[Any]
"""A named tuple of those that follow each other, or are in a reply."""
READS, DRAINS, GROWS = "no-writes", "allow-oom", ""
"""A function that only reads may be asked of a replica; one that makes room, or that a worker needs to do so, works
though memory is full; one that takes something new in does not."""
_CONVERSIONS: dict[object, str] = {
    int: "tonumber({0})",
    int | None: "tonumber({0})",
    bool: "{0} == '1'",
    str | None: "H.optional({0})",
    bytes | None: "H.optional({0})",
}
"""How Lua gets an argument of a type from its text; others are taken as they are."""
_AS_IT_IS: dict[type, str] = {bytes: "a word", int: "a number", list: "a list"}


class ServerCall(msgspec.Struct, Generic[R], kw_only=True):
    """A call of one entry point."""

    reply: ClassVar[type] = bytes
    flag: ClassVar[str] = GROWS
    takes: ClassVar[tuple[Group, ...]] = ()
    gives: ClassVar[tuple[Group, ...]] = ()

    def packed(self, now: str) -> Flat:
        """Return the arguments of a call, as the server takes them: nothing is an empty text."""
        found: Flat = [now, *msgspec.structs.astuple(self)]
        for at in _unlike_bytes(type(self)):
            value = found[at]
            if value is None or isinstance(value, bool):
                found[at] = 1 if value else ""
        return found

    def answer(self, raw: Any) -> R:
        """Return a reply by name; no reply (`None`) stays none."""
        make = _maker(type(self))
        return raw if make is None or raw is None else make(raw)  # type: ignore[no-any-return]


EntryPoint = type[ServerCall[Any]]


@cache
def _maker(entry: EntryPoint) -> Callable[[Flat], Any] | None:
    """Return what gives a reply names, where it has any."""
    return getattr(entry.reply, "_make", None)


@cache
def _unlike_bytes(entry: EntryPoint) -> tuple[int, ...]:
    """Return which arguments may be nothing, true or false, which the server does not know."""
    hints = get_type_hints(entry)
    kinds = (bool, int | None, str | None, bytes | None)
    return tuple(at for at, name in enumerate(entry.__struct_fields__, start=1) if hints[name] in kinds)


def in_groups(flat: Flat, group: Group) -> Iterator[tuple[Any, ...]]:
    """Yield the parts of a flat list, each in the order of the group's fields."""
    return zip(*[iter(flat)] * len(group._fields), strict=True)


def snake(described: type) -> str:
    """Return the name of a class as Lua has it: `CompleteChainCall` is `complete_chain`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", described.__name__.removesuffix("Call")).lower()


def header(entry: EntryPoint) -> str:
    """Return the comment that stands above an entry point in Lua."""
    lines = [f"-- serve {snake(entry)}: {', '.join(('now', *entry.__struct_fields__))}"]
    lines += [f"--   then, over and over, {snake(each)}: {', '.join(each._fields)}" for each in entry.takes]
    reply = ", ".join(_fields(entry.reply)) or _AS_IT_IS[entry.reply]
    lines += [f"--   reply: {reply}"]
    lines += [f"--   in it, {snake(each)}: {', '.join(each._fields)}" for each in entry.gives]
    return "".join(f"{line}\n" for line in lines)


def lua(entries: Sequence[EntryPoint]) -> str:
    """Return the Lua that reads arguments, and writes replies, by name: tables ENTRY, TAKES and REPLY."""
    groups = {snake(each): each for entry in entries for each in entry.takes}
    arrays = {snake(each): each for entry in entries for each in entry.gives}
    replies = {snake(entry): entry.reply for entry in entries if _fields(entry.reply)} | arrays
    return "".join([
        *map(_lua_entry, entries),
        *(_lua_group(name, group) for name, group in groups.items()),
        *(_lua_reply(name, reply) for name, reply in replies.items()),
    ])  # fmt: skip


def _fields(described: type) -> tuple[str, ...]:
    return getattr(described, "_fields", ())


def _read(hint: object, value: str) -> str:
    return _CONVERSIONS.get(hint, "{0}").format(value)


def _lua_entry(entry: EntryPoint) -> str:
    hints, names = get_type_hints(entry), entry.__struct_fields__
    read = ["now = H.now(args[1])"]
    read += [f"{name} = {_read(hints[name], f'args[{at}]')}" for at, name in enumerate(names, start=2)]
    flags = f" '{entry.flag}' " if entry.flag else ""
    return (
        f"ENTRY.{snake(entry)} = {{ flags = {{{flags}}}, behind = {len(read) + 1}, read = function(args)\n"
        f"  return {{ {', '.join(read)} }}\nend }}\n"
    )


def _lua_group(name: str, group: Group) -> str:
    hints = get_type_hints(group)
    read = [f"{each} = {_read(hints[each], f'args[at + {n}]')}" for n, each in enumerate(group._fields)]
    return f"TAKES.{name} = {{ size = {len(read)}, read = function(args, at) return {{ {', '.join(read)} }} end }}\n"


def _lua_reply(name: str, reply: type) -> str:
    values = ", ".join(f"its.{field} or false" for field in _fields(reply))
    return f"REPLY.{name} = function(its) return {{ {values} }} end\n"
