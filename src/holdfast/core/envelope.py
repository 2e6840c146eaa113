"""What a job carries for its handler and its readers, and no store ever reads.

Stores keep an envelope as bytes, beside the payload, and copy it from job to job and into events. A field that is
added here reaches handlers, lists, events and Spark without a change in any store. Two steps look inside: `fail` adds
`failed` to the envelope of the failure job, and lists filter by tag.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import msgspec

from ..errors import ConfigError
from .word import check_text

MOST_HEADER_BYTES = 16 * 1024
"""How large the headers of a job may be, as JSON."""
MOST_TAGS = 50
"""How many tags a job may have."""


class Envelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):  # nothing in it refers back
    """The words that travel with a job: small, readable as JSON, and opaque to stores."""

    headers: dict[str, str] = {}
    tags: tuple[str, ...] = ()
    failed: dict[str, object] | None = None
    """In a failure job: the fields of `FailedJob`."""
    batch: int = 1
    """With how many jobs, itself included, it was sent, for its trace; 1 where no trace was made."""
    blockers: int = 0
    """How many blockers it was sent with, for its trace."""

    def encoded(self) -> bytes | None:
        """Return the envelope as stores keep it; `None` for an empty one."""
        return None if self == EMPTY else _encode(self)

    def with_headers(self, headers: dict[str, str]) -> Envelope:
        """Return the envelope with more headers."""
        return msgspec.structs.replace(self, headers={**self.headers, **headers})

    def of_failed(self, failed: dict[str, object]) -> Envelope:
        """Return the envelope of the failure job for a job that had this one."""
        return msgspec.structs.replace(self, failed=failed)


EMPTY = Envelope()
_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Envelope).decode


_latest: tuple[bytes | str, Envelope] = ("", EMPTY)
"""What was opened last: the jobs of one bulk have equal envelopes."""


def opened(stored: bytes | str | None) -> Envelope:
    """Return a stored envelope, which others may hold, too; raise `msgspec.MsgspecError` for an unreadable one."""
    global _latest
    if not stored:
        return EMPTY
    text, envelope = _latest
    if text != stored:
        envelope = _decode(stored)
        _latest = stored, envelope
    return envelope


def readable(stored: bytes | str | None) -> Envelope:
    """Return a stored envelope; an empty one where it cannot be read."""
    try:
        return opened(stored)
    except (msgspec.MsgspecError, TypeError, UnicodeDecodeError):
        return EMPTY


def check_headers(headers: object) -> dict[str, str]:
    """Return the headers of a job, or raise for what cannot be carried."""
    if isinstance(headers, dict) and any(str(name).startswith("holdfast-") for name in headers):
        raise ConfigError(f"headers={headers!r}: names that begin with holdfast- are Holdfast's own")
    try:
        checked = msgspec.convert(headers, dict[str, str])
        size = len(msgspec.json.encode(checked))
    except (msgspec.ValidationError, TypeError):
        raise ConfigError(f"headers={headers!r}: a dict of strings") from None
    except UnicodeEncodeError:
        raise ConfigError(f"headers={headers!r}: one holds half a surrogate pair, which is no text") from None
    if size > MOST_HEADER_BYTES:
        raise ConfigError(
            f"headers: {size} bytes as JSON, and at most {MOST_HEADER_BYTES} are carried with a job: "
            "pass what is large in the payload"
        )
    if any("\0" in name + value for name, value in checked.items()):
        raise ConfigError(f"headers={headers!r}: one holds a NUL character, which not every store can keep")
    return checked


def check_tags(tags: object) -> tuple[str, ...]:
    """Return the tags of a job, each once and in their order, or raise for what cannot be one."""
    if isinstance(tags, str) or not isinstance(tags, Sequence | Set):
        raise ConfigError(f"tags={tags!r}: a list of strings")
    given = sorted(tags, key=str) if isinstance(tags, Set) else tags
    checked = tuple(dict.fromkeys(check_text(tag, "tags", "a tag") for tag in given))
    if len(checked) > MOST_TAGS:
        raise ConfigError(f"tags: a job has at most {MOST_TAGS} tags, and these are {len(checked)}")
    return checked
