"""What nobody sees through the server: fields of payloads, results, headers and errors, by their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from ..errors import ConfigError

HIDDEN = "[redacted]"
DEFAULT_NAMES = (
    "password", "passwd", "passphrase", "pwd", "secret", "token", "authorization", "api_key", "apikey", "access_key",
    "private_key", "credential", "cookie", "cvv", "cvc",
)  # fmt: skip
DEEPEST = 64
"""What is nested deeper is hidden as a whole."""
JsonValue: TypeAlias = Any
"""Whatever JSON can hold."""


class Redaction(msgspec.Struct, frozen=True, kw_only=True):
    """Which fields are hidden. A name hides every field whose own name has it as a word: `token` hides `api-token`."""

    names: tuple[str, ...] = DEFAULT_NAMES
    """Hidden in all jobs, however deep they are nested."""
    tasks: Mapping[str, tuple[str, ...]] = {}
    """By task, or by queue for plain payloads: names, paths such as `card.number`, or `*` for everything."""

    def __post_init__(self) -> None:
        for where, names in (("names", self.names), *self.tasks.items()):
            if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):
                raise ConfigError(f"redact: {where}={names!r}: give a list of names")


def redaction_of(words: Iterable[str], *, defaults: bool = True) -> Redaction:
    """Return what the words of a command line hide: `NAME`, or `TASK:NAME`, `TASK:PATH.TO.FIELD`, `TASK:*`."""
    names = list(DEFAULT_NAMES) if defaults else []
    tasks: dict[str, tuple[str, ...]] = {}
    for word in words:
        task, colon, name = word.rpartition(":")
        if not name or (colon and not task):
            raise ConfigError(f"redact {word!r}: write NAME, TASK:NAME, TASK:PATH.TO.FIELD or TASK:*")
        if colon:
            tasks[task] = (*tasks.get(task, ()), name)
        else:
            names.append(name)
    return Redaction(names=tuple(names), tasks=tasks)


class Redactor:
    """Hides what a `Redaction` says, in values that are about to be shown."""

    def __init__(self, redaction: Redaction | None) -> None:
        rules = redaction or Redaction(names=())
        self._words = frozenset(_word(name) for name in rules.names)
        self._tasks = {task: frozenset(names) for task, names in rules.tasks.items()}
        self._known: dict[str, bool] = {}

    def hides_all(self, *whose: str | None) -> bool:
        """Return whether nothing is shown of the jobs of a task, or of a plain queue."""
        return any(each is not None and "*" in self._tasks.get(each, ()) for each in whose)

    def value(self, value: JsonValue, *whose: str | None) -> JsonValue:
        """Return a payload, result, checkpoint or the fields of an error with what is hidden left out."""
        if self.hides_all(*whose):
            return HIDDEN
        own = frozenset[str]().union(*(self._tasks.get(each, frozenset()) for each in whose if each is not None))
        if own and isinstance(value, dict) and value.keys() == {"base64"}:
            return HIDDEN  # what cannot be decoded cannot be looked into
        return self._hidden(value, own, "", 0)

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a job with what is hidden left out."""
        return {name: HIDDEN if self._secret(name) else text for name, text in headers.items()}

    def _hidden(self, value: JsonValue, own: frozenset[str], path: str, depth: int) -> JsonValue:
        if depth > DEEPEST:
            return HIDDEN
        if isinstance(value, dict):
            return {
                name: HIDDEN
                if self._secret(name) or name in own or f"{path}{name}" in own
                else self._hidden(each, own, f"{path}{name}.", depth + 1)
                for name, each in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._hidden(each, own, path, depth + 1) for each in value]
        return value

    def _secret(self, name: object) -> bool:
        text = str(name)
        if text not in self._known:
            if len(self._known) > 10_000:
                self._known.clear()
            self._known[text] = not self._words.isdisjoint(_parts(text))
        return self._known[text]


def pruned(value: JsonValue, budget: int) -> JsonValue:
    """Return the beginning of a value: about so many characters of it, and of lists and objects what fits."""
    return _pruned(value, [budget])


def _pruned(value: JsonValue, left: list[int]) -> JsonValue:
    left[0] -= 4
    if isinstance(value, str):
        kept = value[: max(0, left[0])]
        left[0] -= len(kept)
        return kept if len(kept) == len(value) else f"{kept}…"
    if isinstance(value, dict):
        small = {}
        for name, each in value.items():
            if left[0] <= 0:
                break
            left[0] -= len(name)
            small[name] = _pruned(each, left)
        return small
    if isinstance(value, list | tuple):
        some = []
        for each in value:
            if left[0] <= 0:
                break
            some.append(_pruned(each, left))
        return some
    return value


def _word(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _parts(name: str) -> set[str]:
    """Return the words of a field's name, and their runs: `userApiKey` has `user`, `api`, `key`, `apikey`, …"""
    spread = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name[:200])
    words = [each for each in re.split(r"[^a-z0-9]+", spread.lower()) if each]
    runs = {"".join(words[first:last]) for first in range(len(words)) for last in range(first + 1, len(words) + 1)}
    return runs | {each[:-1] for each in runs if each.endswith("s")}
