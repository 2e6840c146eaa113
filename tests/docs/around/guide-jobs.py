import asyncio

from holdfast import Holdfast, HookEvent
from holdfast.testing import ManualClock, drain, isolate

app = Holdfast("memory://")
enqueued = asyncio.Event()


@app.task()
async def send(to: str) -> str:
    return to


@app.on("enqueue")
def note(event: HookEvent) -> None:
    enqueued.set()


async def run_soon(clock: ManualClock) -> None:
    await enqueued.wait()
    clock.advance(60)
    await drain(app)


async def main() -> None:
    clock = ManualClock()
    with isolate(app, clock):
        async with app:
            running = asyncio.create_task(run_soon(clock))
            # piece 1
            await running


asyncio.run(main())
