"""Looking up many ids in one call, and what a worker holds: by app, queue, facade and command line."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_shop import Shop, in_shop
from support import Flaky, burst, eventually, working

from holdfast import ConfigError, Holdfast, JobPage, Permanent, State
from holdfast.store import open_store


async def test_many_ids_are_looked_up_in_pieces_and_in_their_order(url: str) -> None:
    store = Flaky(open_store(url))
    app = Holdfast(store=store)
    ids = [f"job-{number}" for number in range(1100)]
    async with app:
        queue = app.queue("mail")
        await app.enqueue_many(queue.args(number, job_id=id) for number, id in enumerate(ids))
        asked = [*reversed(ids), "nobody's", ids[0], ids[5]]
        found = (await app.jobs(ids=asked, queue="mail")).jobs
        assert [job.id for job in found] == ids[::-1], "each once, and none for who is not there"
        assert store.calls.count("look_up") == 3
        assert {"jobs", "get"}.isdisjoint(store.calls)
        assert [job.id for job in (await queue.jobs(ids=["job-2", "job-1"])).jobs] == ["job-2", "job-1"]
        assert await app.jobs(ids=[]) == JobPage(jobs=[]), "no ids are no jobs, not all"


async def test_the_other_conditions_are_for_the_run_that_answers(app: Holdfast) -> None:
    @app.task(queue="mail", name="send")
    async def send(fine: bool) -> None:
        if not fine:
            raise Permanent("no")

    async with app:
        await send.options(job_id="a").enqueue(False)
        await burst(app)
        await send.options(job_id="a", on_conflict="update").enqueue(True)
        await send.options(job_id="b").enqueue(False)
        await burst(app)
        assert [job.state for job in (await app.jobs(ids=["a", "b"])).jobs] == [State.COMPLETED, State.FAILED]
        assert [job.id for job in (await app.jobs(ids=["a", "b"], state="failed")).jobs] == ["b"]
        assert (await app.jobs(ids=["a"], task="other")).jobs == []
        assert (await app.jobs(ids=["a"], queue="other")).jobs == []


async def test_what_a_worker_holds_is_found_by_its_name_or_session(app: Holdfast) -> None:
    go = asyncio.Event()

    @app.task()
    async def work() -> None:
        await go.wait()

    async with working(app, name="me", slots=2) as running:
        held = [await work.enqueue() for _ in range(2)]
        await eventually(lambda: running.worker.active == 2)
        waiting = await work.enqueue()
        (info,) = await app.workers()
        for name in ("me", info.session.id):
            assert {job.id for job in (await app.jobs(worker=name)).jobs} == {handle.id for handle in held}
        assert [job.id for job in (await app.jobs(worker="me", ids=[held[1].id, waiting.id])).jobs] == [held[1].id]
        assert (await app.jobs(worker="somebody else")).jobs == [], "and not the jobs of all"
        assert (await app.queue("other").jobs(worker="me")).jobs == []
        first = await app.jobs(worker="me", limit=1)
        second = await app.jobs(worker="me", limit=1, cursor=first.cursor)
        assert {job.id for job in first.jobs + second.jobs} == {handle.id for handle in held}
        go.set()


def test_the_facade_looks_up_many(app: Holdfast) -> None:
    with app.sync:
        app.sync(app.queue("mail").enqueue(1, job_id="a"))
        assert [job.id for job in app.sync(app.jobs(ids=["b", "a"])).jobs] == ["a"]


async def test_what_cannot_be_meant_is_refused(app: Holdfast) -> None:
    async with app:
        with pytest.raises(ConfigError, match="ids='a': give a list of ids"):
            await app.jobs(ids="a")
        with pytest.raises(ConfigError, match=r"ids=\[...\]: they are looked up in one call, with no cursor="):
            await app.jobs(ids=["a"], cursor="7")
        with pytest.raises(ConfigError, match="worker='me': what a worker holds is active; leave state= out"):
            await app.jobs(worker="me", state="waiting")
        with pytest.raises(ConfigError, match="job_id"):
            await app.jobs(ids=["a", "\ud800"])


# --- the command


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop in the current folder, named by HOLDFAST_APP."""
    with in_shop(tmp_path, monkeypatch) as shop:
        yield shop


def test_the_command_lists_ids_in_their_order_and_what_a_worker_holds(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    for id in ("a", "b", "c"):
        shop.ok("enqueue", "send", "to=ann", "--id", id)
    shop.ok("enqueue", "until_told", "--id", "held")
    found = shop.json("jobs", "list", "--id", "c", "--id", "nobody", "--id", "a")
    assert [job["id"] for job in found["jobs"]] == ["c", "a"]

    async def look() -> list[str]:
        async with working(shop.app, "slow", name="me", drain=0):
            await eventually(
                lambda: "running" in capsys.readouterr().out, "or it would say so into the command's output"
            )
            words = ("jobs", "list", "--worker", "me", "--url", f"sqlite:///{shop.folder}/jobs.db")
            told = await asyncio.to_thread(shop.json, *words)
        return [job["id"] for job in told["jobs"]]

    assert asyncio.run(look()) == ["held"]
    assert shop.json("jobs", "list", "--worker", "me")["jobs"] == []
