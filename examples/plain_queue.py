"""A queue with no decorator: any JSON goes in, and the worker's own configuration says what runs it.

The handler is named by its import path in the worker's code. A job carries data only: whoever can write to the
store cannot choose what code runs.
"""

import asyncio

from holdfast import Holdfast, Job, State

app = Holdfast("memory://")
photos = app.queue("photos", handler="plain_queue:shrink", concurrency=2)


def shrink(job: Job, photo: dict[str, int]) -> dict[str, int]:
    """A `def` handler runs in a thread, so it may block."""
    return {side: pixels // 4 for side, pixels in photo.items()}


async def main() -> None:
    async with app:
        handle = await photos.enqueue({"width": 4000, "height": 3000}, job_id="photo-1")
        again = await photos.enqueue({"width": 4000, "height": 3000}, job_id="photo-1")
        print(handle.status, again.status)

        counts = await photos.enqueue_many({"width": side, "height": side} for side in range(400, 1400, 100))
        print(counts.queued, "more")

        report = await app.worker().run(burst=True)  # ends when nothing is left
        print(report.completed, "completed")
        print(await handle.result())
        assert (await photos.status("photo-1")).state is State.COMPLETED


if __name__ == "__main__":
    asyncio.run(main())
