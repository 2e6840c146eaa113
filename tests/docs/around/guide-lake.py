import asyncio

from holdfast import Holdfast

some = Holdfast("sqlite:///jobs.db")


@some.task(name="send")
async def send() -> None: ...


async def work() -> None:
    async with some:
        await send.enqueue()
        await some.worker().run(burst=True)


asyncio.run(work())
# piece 2
assert done is not None
# piece 1
print(slow)
session().stop()
