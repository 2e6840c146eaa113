import asyncio

from holdfast import Continued, Depends


class Pool:
    async def fetchval(self, query: str, day: str) -> int:
        return 7

    async def close(self) -> None: ...


async def connect() -> Pool:
    return Pool()


async def download(host: str, key: str, path: str) -> None: ...


def parse(path: str) -> list[str]:
    return []


# piece 1


# piece 2


# piece 3


# piece 4


async def main() -> None:
    async with app:
        for task in (resize, report, preview, measure, fetch):
            assert task.settings()
        await report.enqueue("2026-11-18")
        assert (await app.worker(["default"]).run(burst=True)).completed == 1


if __name__ == "__main__":  # processes import their handlers from a module
    import program

    asyncio.run(program.main())
