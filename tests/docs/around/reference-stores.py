import asyncio

# piece 1


async def main() -> None:
    async with app:
        handle = await app.queue("mail").enqueue({"to": "ann"})
        assert handle.status == "queued"


asyncio.run(main())
