"""A record that cannot be read, under a running worker: told of once by log, hook and event; all else goes on."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from places import STORES, place
from spoil import spoil_job
from support import eventually, working

from holdfast import Holdfast, HookEvent


@pytest.mark.parametrize("kind", STORES)
async def test_a_running_worker_tells_of_a_corrupt_record_once(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "holdfast")
    with place(kind, tmp_path) as url:
        app, ran, told = Holdfast(url), list[str](), list[HookEvent]()
        app.on("fail")(told.append)

        @app.task(queue="q")
        async def work(word: str) -> None:
            ran.append(word)

        async with working(app, lease=1):
            await app.queue("q").pause()
            bad = await work.options(job_id="bad").enqueue("bad")
            await work.options(job_id="good").enqueue("good")
            await spoil_job(app, "q", "bad")
            await app.queue("q").resume()
            await eventually(lambda: ran == ["good"], "the job behind it runs")
            await eventually(lambda: _lines(caplog), "it is logged")
            assert (await app.store.reap("q")).corrupt == (), "it was told"
            events = [event async for event in app.events() if event.cause == "corrupt"]
            shown = " ".join(found.detail for found in await app.store.doctor() if found.name == "records")
        (line,) = _lines(caplog)
        assert line.startswith(f"corrupt_record: job q/bad (run {bad.run}) was set aside: ")
        assert [(each.queue, each.id, each.run, each.state) for each in told] == [("q", "bad", bad.run, "failed")]
        assert told[0].detail.startswith("CorruptRecord: job: ")
        assert [(event.transition, event.id, event.run) for event in events] == [("fail", "bad", bad.run)]
        assert "q/bad" in shown


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records]
    return [line for line in found if line.startswith("corrupt_record")]
