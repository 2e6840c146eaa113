import asyncio
from pathlib import Path
from typing import Any

import django
import httpx
from django.conf import settings

Path("shop.py").write_text(
    """from holdfast import Holdfast

app = Holdfast("sqlite:///shop.db")
app.queue("mail")
"""
)
settings.configure(ROOT_URLCONF=[], ALLOWED_HOSTS=["*"])
django.setup()
QUEUES = "/jobs/api/v1/queues"


def client(web: Any, host: str = "localhost") -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url=f"http://{host}")


async def fastapi() -> None:
    # piece 1
    async with main.router.lifespan_context(main), client(main, "shop.example.com") as browser:
        assert (await browser.get(QUEUES)).status_code == 401
        assert (await browser.get(QUEUES, headers={"x-user": "ann"})).status_code == 200


async def with_django() -> None:
    # piece 2
    async with client(application) as browser:
        assert (await browser.get(QUEUES)).status_code == 401


async def with_flask() -> None:
    # piece 3
    async with web.router.lifespan_context(web), client(both) as browser:
        assert (await browser.get(QUEUES)).status_code == 401


asyncio.run(fastapi())
asyncio.run(with_django())
asyncio.run(with_flask())
