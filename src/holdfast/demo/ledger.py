"""The ledger: compare what was asked for, what the handlers wrote down, and what the store says.

There are three witnesses, none of which sees the others' books: the producer (`ProducerBook`), the handlers
(`handler_notes.py`) and the store. Every check can fail: `audit` reads all books from the folder again, so that you can
change a row and see.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from urllib.parse import quote

import msgspec

from ..app.app import Holdfast
from ..core.event import Event
from ..core.job import JobRecord
from ..core.state import FINISHED, State
from ..errors import ConfigError
from .handler_notes import HandlerNote, read_notes

FILE = "producer.json"
Name = tuple[str, str]
At = tuple[str, str, int]
ENDS = {"complete": "end", "retry": "raise", "fail": "raise"}
"""Which word of a handler goes with which transition of the store."""


class ProducerBook(msgspec.Struct):
    """What the producer knows: what it asked for, how it was answered, and which worker it killed."""

    asked: list[Name] = []
    """(queue, id) of every enqueue, repeats included."""
    answers: dict[str, int] = {}
    cents: int = 0
    """The sum of all orders, each counted once."""
    report: str = ""
    """The id of the deduplicated report."""
    held: list[At] = []
    """The attempts that the killed worker held when it died."""
    killed: str = ""
    """The killed worker's session."""
    exits: dict[str, int | None] = {}
    """The exit codes of the workers that were asked to stop."""

    def ask(self, queue: str, id: str, status: str) -> None:
        """Remember one enqueue and its answer."""
        self.asked.append((queue, id))
        self.answers[status] = self.answers.get(status, 0) + 1

    def save(self, folder: Path) -> None:
        """Write the producer's book to the folder."""
        (folder / FILE).write_bytes(msgspec.json.encode(self))


class ThreeBooks(msgspec.Struct):
    """All three books of one demo."""

    producer: ProducerBook
    notes: list[HandlerNote]
    jobs: list[JobRecord]
    events: list[Event]


class LedgerCheck(msgspec.Struct, frozen=True):
    """One line of the ledger."""

    name: str
    holds: bool
    detail: str


async def read_books(folder: Path) -> ThreeBooks:
    """Return the three books that a demo left in a folder."""
    if not (folder / FILE).exists():
        raise ConfigError(f"{folder} holds no ledger: no demo ran to its end there")
    detail = msgspec.json.decode((folder / FILE).read_bytes(), type=ProducerBook)
    async with Holdfast(f"sqlite:///{quote(str(folder / 'shop.db'))}") as app:
        jobs: list[JobRecord] = []
        page = await app.jobs(limit=1000)
        jobs += page.jobs
        while page.cursor:
            page = await app.jobs(limit=1000, cursor=page.cursor)
            jobs += page.jobs
        events = [event async for event in app.events()]
    return ThreeBooks(detail, read_notes(folder), jobs, events)


async def audit(folder: Path) -> list[LedgerCheck]:
    """Return every check of the demo that ran in a folder."""
    return check(await read_books(folder))


def check(books: ThreeBooks) -> list[LedgerCheck]:
    """Compare the three books."""
    return [each(books) for each in CHECKS]


def _enqueued(books: ThreeBooks) -> LedgerCheck:
    book, asked = books.producer, len(books.producer.asked)
    new = book.answers.get("queued", 0)
    repeats = book.answers.get("duplicate", 0) + book.answers.get("completed", 0)
    holds = asked == new + repeats and new == len(set(book.asked))
    return LedgerCheck(
        "dispatched", holds, f"{asked:,} dispatches = {new:,} enqueued + {repeats:,} repeats of a known id"
    )


def _accounted(books: ThreeBooks) -> LedgerCheck:
    states = Counter(job.state for job in books.jobs)
    new = books.producer.answers.get("queued", 0)
    over = {state: states[state] for state in (State.COMPLETED, State.FAILED, State.CANCELLED)}
    left = len(books.jobs) - sum(over.values())
    detail = " + ".join(f"{count:,} {state}" for state, count in over.items())
    unfinished = f", and {left:,} not finished" if left else ""
    return LedgerCheck(
        "accounted for", new == sum(over.values()) and not left, f"{new:,} enqueued = {detail}{unfinished}"
    )


def _nothing_lost(books: ThreeBooks) -> LedgerCheck:
    asked = set(books.producer.asked)
    kept = {(job.queue, job.id) for job in books.jobs if job.state in FINISHED}
    lost, strange = asked - kept, kept - asked
    detail = f"{len(lost)} lost, {len(strange)} that nobody asked for" + _some(lost | strange)
    return LedgerCheck("nothing lost", not lost and not strange and len(kept) == len(books.jobs), detail)


def _attempts(books: ThreeBooks) -> LedgerCheck:
    """Check that every attempt in the store has its handler's note, unless its worker died before the handler began."""
    begun = [note.at for note in books.notes if note.word == "begin"]
    claimed = [(event.queue, event.id, event.attempt) for event in books.events if event.transition == "claim"]
    counted = sum(job.counters.attempts for job in books.jobs)
    silent = set(claimed) - set(begun)
    holds = (
        counted == len(claimed) == len(set(claimed)) == len(begun) + len(silent)
        and len(begun) == len(set(begun))
        and silent <= set(books.producer.held)
    )
    detail = f"{counted:,} attempts in the store = {len(begun):,} begun, by the handlers' notes"
    return LedgerCheck("attempts", holds, detail + f" + {len(silent)} killed before they began")


def _outcomes(books: ThreeBooks) -> LedgerCheck:
    """Check that the store and the handler agree on how each attempt ended, unless its worker died in between."""
    held = set(books.producer.held)
    written = {note.at: note.word for note in books.notes if note.word != "begin" and note.at not in held}
    stored = {
        (event.queue, event.id, event.attempt): ENDS[event.transition]
        for event in books.events
        if event.transition in ENDS
    }
    wrong = {at[:2] for at in written.keys() | stored.keys() if written.get(at) != stored.get(at)}
    raised = sum(word == "raise" for word in written.values())
    failures = sum(job.counters.failures for job in books.jobs)
    detail = f"{len(stored):,} ends in the store, {len(wrong)} unlike the handler's own note{_some(wrong)}; "
    detail += f"{failures} failures = {raised} raised"
    return LedgerCheck("outcomes", not wrong and failures == raised, detail)


def _stalls(books: ThreeBooks) -> LedgerCheck:
    held = Counter((queue, id) for queue, id, _ in books.producer.held)
    stalled = {(job.queue, job.id): job.counters.stalls for job in books.jobs if job.counters.stalls}
    detail = f"{sum(stalled.values())} stalls = {held.total()} jobs held by the worker that was killed"
    return LedgerCheck("stalls", bool(held) and stalled == held, detail)


def _recovered(books: ThreeBooks) -> LedgerCheck:
    held = {(queue, id) for queue, id, _ in books.producer.held}
    elsewhere = {
        (event.queue, event.id)
        for event in books.events
        if event.transition in ("complete", "fail") and event.worker != books.producer.killed
    }
    detail = f"{len(held & elsewhere)} of its {len(held)} jobs were finished by other workers{_some(held - elsewhere)}"
    return LedgerCheck("recovered", held <= elsewhere, detail)


def _once(books: ThreeBooks) -> LedgerCheck:
    """Check that each job completed once, and that no handler began after that."""
    completed = [(event.queue, event.id) for event in books.events if event.transition == "complete"]
    final = {
        (event.queue, event.id): event.attempt for event in books.events if event.transition in ("complete", "fail")
    }
    twice = {name for name, times in Counter(completed).items() if times > 1}
    late = {note.at[:2] for note in books.notes if note.attempt > final.get(note.at[:2], 0)}
    unlike = {job.id for job in books.jobs if job.state is State.COMPLETED} ^ {id for _, id in completed}
    detail = f"{len(twice)} completed twice, {len(late)} begun again after their end{_some(twice | late)}"
    return LedgerCheck("done once", not twice and not late and not unlike, detail)


def _deduplicated(books: ThreeBooks) -> LedgerCheck:
    name = ("reports", books.producer.report)
    asked = books.producer.asked.count(name)
    ran = sum(note.word == "begin" and note.at[:2] == name for note in books.notes)
    detail = f"{books.producer.report} was enqueued {asked} times and ran {ran} {'time' if ran == 1 else 'times'}"
    return LedgerCheck("deduplicated", asked > 1 and ran == 1, detail)


def _money(books: ThreeBooks) -> LedgerCheck:
    orders = [job for job in books.jobs if job.queue == "orders" and job.result is not None]
    kept = sum(msgspec.json.decode(job.result or b"0", type=int) for job in orders)
    asked = books.producer.cents
    return LedgerCheck("money", kept == asked, f"{kept / 100:,.2f} in the results = {asked / 100:,.2f} in the files")


def _exits(books: ThreeBooks) -> LedgerCheck:
    exits = books.producer.exits
    detail = ", ".join(f"{name} exit {code}" for name, code in sorted(exits.items()))
    return LedgerCheck("workers", bool(exits) and set(exits.values()) == {0}, f"stopped on SIGTERM: {detail}")


def _some(names: set[Name]) -> str:
    shown = ", ".join("/".join(name) for name in sorted(names)[:3])
    return f" ({shown}{', …' if len(names) > 3 else ''})" if names else ""


CHECKS = (
    _enqueued, _accounted, _nothing_lost, _attempts, _outcomes, _stalls, _recovered, _once, _deduplicated, _money,
    _exits,
)  # fmt: skip
