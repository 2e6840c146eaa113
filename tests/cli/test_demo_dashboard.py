"""The dashboard beside the demo: it says its address, is there, and ends with the demo."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from holdfast import Holdfast
from holdfast.demo import command
from holdfast.demo import dashboard as demo_dashboard
from holdfast.demo.dashboard import dashboard


async def test_the_demo_says_the_address_of_its_dashboard(tmp_path: Path) -> None:
    said = io.StringIO()
    async with (
        Holdfast(f"sqlite:///{tmp_path}/shop.db") as app,
        dashboard(tmp_path, Console(file=said)) as address,
        httpx.AsyncClient() as client,
    ):
        assert address is not None
        assert said.getvalue() == f"Dashboard: {address}\n"
        await app.queue("orders").enqueue({"order": 1})
        page = await client.get(f"{address}queues", headers={"accept": "text/html"})
        assert page.status_code == 200
        assert "orders" in page.text
    with pytest.raises(httpx.ConnectError):
        async with httpx.AsyncClient() as client:
            await client.get(address)


async def test_without_the_extra_the_demo_does_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(folder: Path, port: int) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(demo_dashboard, "_start", start)
    said = io.StringIO()
    async with dashboard(tmp_path, Console(file=said)) as address:
        assert address is None
    assert "pip install 'holdfast-queue[cli,web]'" in said.getvalue()


async def test_an_interrupt_while_the_lake_is_filled_takes_nothing_from_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object) -> None: ...

    def interrupted(*_: object) -> bool:
        raise InterruptedError

    monkeypatch.setattr(command, "_run", nothing)
    monkeypatch.setattr(command, "audit", nothing)
    monkeypatch.setattr(command, "_report", lambda *_: True)
    monkeypatch.setattr(command, "show_lake", interrupted)
    given = command.DemoRun(tmp_path, command._size(1, True), Console(), True)
    with pytest.raises(InterruptedError):
        await command._play(given)
    assert given.adds_up
