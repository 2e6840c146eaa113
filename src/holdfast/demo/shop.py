"""The shop: five tasks in five queues, as an application would write them.

Each handler writes down its own runs (`noted`), so that the ledger at the end need not take the queue's word.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ..app.app import Holdfast
from ..core.policy import Retry
from ..errors import Permanent
from ..handler.job import Job
from .handler_notes import noted
from .worker_processes import FOLDER as VARIABLE

FOLDER = Path(os.environ.get(VARIABLE, "."))
URL = f"sqlite:///{quote(str(FOLDER / 'shop.db'))}"
MAIL_IS_DOWN_FOR = 2

app = Holdfast(URL)
app.queue("photos", concurrency=9)


@dataclass
class Charge:
    """What the bank answered."""

    order: str
    cents: int
    code: str


class CardExpired(Permanent):
    """Trying again would not help."""


class MailServerDown(ConnectionError):
    """Trying again may help."""


@app.task(queue="payments", priority=10, timeout=10)
async def charge_card(job: Job, order: str, cents: int, card: str) -> Charge:
    """A customer waits for this one: it is called, not just enqueued."""
    with noted(job, FOLDER):
        await asyncio.sleep(0.05)
        if card == "expired":
            raise CardExpired("the card has expired")
        return Charge(order, cents, f"ok-{cents:06d}")


@app.task(queue="mail", retry=Retry(failures=5, initial=0.4), timeout=10)
async def send_receipt(job: Job, to: str) -> str:
    """The mail server refuses each message twice."""
    with noted(job, FOLDER):
        await asyncio.sleep(0.02)
        if job.counters.failures < MAIL_IS_DOWN_FOR:
            raise MailServerDown(f"no answer for {to}, try {job.attempt}")
        return f"sent to {to}"


@app.task(queue="photos", timeout=10)
def resize_photo(job: Job, name: str, side: int) -> int:
    """A `def` handler: it runs in a thread, and may block."""
    with noted(job, FOLDER):
        picture = bytes(side * side)
        small = picture[:: side // 8]
        time.sleep(0.4)
        return len(small)


@app.task(queue="reports")
async def nightly_report(job: Job, day: str) -> str:
    """Five web servers ask for it at midnight; it should run once."""
    with noted(job, FOLDER):
        await asyncio.sleep(0.1)
        return f"report for {day}"


@app.task(queue="orders")
async def import_order(job: Job, number: int, cents: int) -> int:
    """One line of a supplier's file."""
    with noted(job, FOLDER):
        await asyncio.sleep(0.005 + number % 5 * 0.005)
        return cents
