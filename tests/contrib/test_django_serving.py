"""Views outside of tests: under ASGI, and in the fresh event loops that WSGI gives to coroutines, with no lifespan."""

from __future__ import annotations

from pathlib import Path

import pytest
from django_place import DjangoSite

ASGI = """
import asyncio, threading
import httpx
from django.core.asgi import get_asgi_application
from holdfast.contrib.django import get_app

async def main():
    transport = httpx.ASGITransport(get_asgi_application())
    async with httpx.AsyncClient(transport=transport, base_url="http://site") as client:
        answers = [await client.post("/apost", data={"text": f"a{number}"}) for number in range(5)]
        answers += await asyncio.gather(*(client.post("/apost", data={"text": f"b{number}"}) for number in range(20)))
    print(sorted({answer.status_code for answer in answers}))

asyncio.run(main())
print(len(get_app().sync(get_app().jobs()).jobs))
"""
WSGI = """
import threading
from django.test import Client
from holdfast.contrib.django import get_app

client = Client()  # by WSGI: each coroutine has a loop of its own
answers = [client.post("/apost", {"text": f"a{number}"}) for number in range(20)]
print(sorted({answer.status_code for answer in answers}))
print(len(get_app().sync(get_app().jobs()).jobs))
threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("holdfast")]
print(len(threads) == len(set(threads)), len(threads) <= 3, threads)
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_an_async_view_needs_no_lifespan(kind: str, tmp_path: Path) -> None:
    site = DjangoSite(kind, tmp_path)
    site.manage("migrate", "--verbosity", "0")
    assert site.program(ASGI).splitlines() == ["[200]", "25"]
    codes, count, threads = site.program(WSGI).splitlines()
    assert (codes, count) == ("[200]", "45")
    assert threads.startswith("True True"), threads


def test_a_fork_after_the_app_was_used_has_its_own(tmp_path: Path) -> None:
    """As with gunicorn's preload: the parent enqueued before it forked."""
    site = DjangoSite("sqlite", tmp_path)
    site.manage("migrate", "--verbosity", "0")
    told = site.program(
        "import os\nfrom notes.tasks import write\nfrom holdfast.contrib.django import get_app\n"
        "from django.db import connections\n"
        "get_app().sync(write.enqueue('parent'))\nconnections.close_all()\n"
        "if os.fork() == 0:\n"
        "    get_app().sync(write.enqueue('child'))\n    get_app().sync.close()\n    os._exit(0)\n"
        "print(os.wait()[1])\nprint(len(get_app().sync(get_app().jobs()).jobs))\n"
    )
    assert told.splitlines()[:2] == ["0", "2"]  # newer Pythons add a warning of every fork
