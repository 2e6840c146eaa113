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
# piece 3
assert done is not None
# piece 1
print(slow)
# piece 2
database.close()
# piece 4
assert "bucket" in str(place)
session().stop()
