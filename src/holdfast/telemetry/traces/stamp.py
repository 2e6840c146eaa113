"""Write trace context into the headers of jobs on their way to a store, beside what their callers put there."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...core.envelope import MOST_HEADER_BYTES, Envelope, readable
from ...store.contract import NewJob
from .w3c import BAGGAGE, PARENT, STATE

MOST_KNOWN, MOST_KEPT = 1000, 32
"""Different envelopes that one stamp remembers, and contexts of callers' own among them."""
_PARENT_ALONE = {PARENT}
"""What most contexts are, which always fits."""


class Stamp:
    """Stamp jobs with one trace context. Jobs with equal envelopes share the new one."""

    __slots__ = ("_known", "context", "kept")

    def __init__(self, context: dict[str, str]) -> None:
        self.context = context
        self._known: dict[tuple[bytes | None, int, int], bytes | None] = {}
        self.kept: dict[bytes, str] = {}
        """Contexts that callers gave to jobs themselves, by envelope: these are left as they are."""

    def jobs(self, jobs: Sequence[NewJob], batch: int = 1) -> list[NewJob]:
        """Return the jobs with the context in their headers; `batch` is how many are sent together."""
        if len(jobs) == 1:
            return [_with(jobs[0], self.envelope(jobs[0].envelope, batch, len(jobs[0].blockers)))]
        known, stamped = self._known, []
        for job in jobs:
            key = (job.envelope, batch, len(job.blockers))
            if key not in known:
                if len(known) >= MOST_KNOWN:
                    known.clear()
                known[key] = self.envelope(*key)
            stamped.append(_with(job, known[key]))
        return stamped

    def envelope(self, stored: bytes | None, batch: int = 1, blockers: int = 0) -> bytes | None:
        """Return an envelope with the context; as it is where its caller gave it one, or where it has no room."""
        if stored is None and self.context.keys() == _PARENT_ALONE:
            return Envelope(headers=self.context, batch=batch, blockers=blockers).encoded()
        envelope = readable(stored)
        own = envelope.headers
        if stored is not None and not self.context.keys().isdisjoint(own):
            if len(self.kept) < MOST_KEPT:
                self.kept[stored] = own.get(PARENT, "")
            return stored
        sent = msgspec.structs.replace(envelope, batch=batch, blockers=blockers)
        for left_out in ((), (BAGGAGE,), (BAGGAGE, STATE)):
            more = {name: text for name, text in self.context.items() if name not in left_out}
            whole = sent.with_headers(more)
            if _fits(whole):
                return whole.encoded()
        return stored


def _with(job: NewJob, envelope: bytes | None) -> NewJob:
    return job if envelope == job.envelope else msgspec.structs.replace(job, envelope=envelope)


def _fits(envelope: Envelope) -> bool:
    try:
        return len(msgspec.json.encode(envelope.headers)) <= MOST_HEADER_BYTES
    except UnicodeEncodeError:
        return False
