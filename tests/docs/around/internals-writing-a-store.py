import asyncio

# piece 1


async def main() -> None:
    store = MyStore("mine://localhost")
    await store.open()
    assert await store.enqueue("mail", []) is None  # nothing is written yet
    await store.close()


asyncio.run(main())
