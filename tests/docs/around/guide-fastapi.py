import asyncio
import warnings

import httpx

warnings.filterwarnings("ignore", "Using `httpx`")  # Starlette's test client, which piece 4 uses


def client(api: object) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://localhost")


async def shop() -> None:
    # piece 1
    async with api.router.lifespan_context(api), client(api) as browser:
        assert (await browser.post("/sign-up/ann")).json() == {"job": "welcome-ann", "status": "queued"}


async def own_lifespan() -> None:
    # piece 2
    async with api.router.lifespan_context(api) as state:
        assert state["mood"] == "good"


async def depends() -> None:
    # piece 3
    async with api.router.lifespan_context(api), client(api) as browser:
        assert (await browser.get("/backlog")).json() == {"mail": 1}


asyncio.run(shop())
asyncio.run(own_lifespan())
asyncio.run(depends())
# piece 4
test_a_new_customer_is_welcomed()
