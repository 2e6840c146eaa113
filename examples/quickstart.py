"""The code of the README's first screen. `python examples/quickstart.py` runs it, worker and all.

In earnest the worker is another process: `holdfast worker examples/quickstart.py:app`.
"""

import asyncio
from dataclasses import dataclass

from holdfast import Holdfast, Retry

app = Holdfast("sqlite:///jobs.db")


@dataclass
class Receipt:
    to: str
    template: str


@app.task(queue="mail", retry=Retry(failures=5), timeout=30)
async def send(to: str, template: str) -> Receipt:
    return Receipt(to, template)


async def produce() -> None:
    async with app:
        await send.enqueue("ann@example.com", template="welcome")  # fire and forget
        receipt = await send.call("ann@example.com", template="welcome")  # wait for the result
        print(receipt)

        reminder = send.options(job_id="mail-1", delay=60, priority=5)  # everything else
        handle = await reminder.enqueue("ann@example.com", template="reminder")
        print(handle.status, handle.id, handle.state)


async def main() -> None:
    worker = app.worker()
    working = asyncio.create_task(worker.run())
    await produce()
    worker.stop()
    print(await working)


if __name__ == "__main__":
    asyncio.run(main())
