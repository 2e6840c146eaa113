import asyncio

from holdfast import Holdfast

app = Holdfast("memory://")
app.queue("mail", handler=lambda mail: mail)


async def main() -> None:
    async with app:
        await app.queue("mail").enqueue({"to": "ann"})
        await app.worker().run(burst=True)
        # piece 1
        assert len(replayed.runs) == 1


asyncio.run(main())
