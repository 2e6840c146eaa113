"""The tasks of a small shop, as the pages show them."""

from __future__ import annotations

import asyncio

from holdfast import Cron, Every, Holdfast, Job, Permanent, Retry


class CardExpired(Permanent):
    """Trying again would not help."""


def shop(url: object = "memory://", **options: object) -> Holdfast:
    """Return an app of which the tests know every task."""
    app = Holdfast(url, **options)  # type: ignore[arg-type]
    app.queue("photos", concurrency=4, key_concurrency=2)

    @app.task(queue="payments", retry=Retry(failures=2, initial=0.01), timeout=10)
    async def charge(order: str, card: str = "good", password: str = "") -> dict[str, str]:
        if card == "expired":
            raise CardExpired(f"the card of {order} has expired")
        if card == "down":
            raise ConnectionError("the bank does not answer")
        return {"order": order}

    @app.task(queue="photos")
    async def resize(job: Job, name: str) -> str:
        await job.progress(0.5, "half of it")
        await job.save({"row": 12})
        await job.signal.wait()
        return name

    @app.task(queue="mail")
    async def send(to: str) -> str:
        return f"sent to {to}"

    @app.task(queue="mail")
    async def pack(job: Job, order: str) -> object:
        return job.continue_with(send, order)

    @app.task(queue="approvals")
    async def approve(order: str) -> object:
        await asyncio.sleep(3600)
        return True

    app.schedule("nightly", Cron("0 3 * * *", tz="Europe/Berlin"), send.args("all"))
    app.schedule("hourly", Every(3600), send.args("some"), overlap="skip")
    return app
