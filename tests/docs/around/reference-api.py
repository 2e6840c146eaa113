import asyncio
from pathlib import Path

Path("shop.py").write_text(
    """from holdfast import Holdfast, Permanent

app = Holdfast("sqlite:///shop.db")


@app.task(queue="mail")
async def send(to: str) -> None:
    raise Permanent("no such mailbox")
"""
)


async def main() -> None:
    from shop import app, send

    from holdfast import OutgoingJob, WorkerProcesses

    # piece 1

    # piece 2

    # piece 3

    # piece 4

    async with app:
        await send.enqueue("ann")
        await app.worker().run(burst=True)
        assert [job.task async for job in every_failed(app)] == ["send"]


if __name__ == "__main__":
    asyncio.run(main())
