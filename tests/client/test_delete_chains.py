"""Deleting many chains at once, on every store: those that wait for each other go together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from places import STORES, place
from support import burst

from holdfast import ChainRef, ConfigError, Continued, DeleteResult, Holdfast, Job, Reply


@pytest.fixture(params=STORES)
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Holdfast]:
    """An app on an empty store of each kind."""
    with place(request.param, tmp_path) as url:
        yield Holdfast(url)


async def line(app: Holdfast, *ids: str) -> list[tuple[str, str]]:
    """Return jobs in two queues by turns, each of which waits for the one before it."""
    made: list[tuple[str, str]] = []
    for number, id in enumerate(ids):
        queue = "ab"[number % 2]
        await app.queue(queue).enqueue(id, job_id=id, blockers=made[-1:])
        made.append((queue, id))
    return made


async def left(app: Holdfast) -> set[str]:
    return {job.id for job in (await app.jobs()).jobs}


@pytest.mark.parametrize("turned", [False, True], ids=["first to last", "last to first"])
async def test_chains_that_wait_for_each_other_are_deleted_in_any_order(anywhere: Holdfast, turned: bool) -> None:
    async with anywhere as app:
        chains = await line(app, *(f"j{number}" for number in range(6)))
        await app.queue("a").enqueue("other", job_id="other")
        answers = await app.delete_chains(chains[::-1] if turned else chains)
        assert answers == [DeleteResult(reply=Reply.OK, chains=1)] * 6
        assert await left(app) == {"other"}


async def test_each_has_its_own_answer_in_the_order_given(anywhere: Holdfast) -> None:
    async with anywhere as app:
        (a, b), waiter = await line(app, "a", "b"), await app.queue("w").enqueue(1, job_id="w", blockers=[("b", "b")])
        alone = await app.queue("c").enqueue(1, job_id="c")
        ref = ChainRef("c", "c", alone.run)
        answers = await app.delete_chains([a, ("a", "nobody"), ref, b, ref])
        assert [answer.reply for answer in answers] == [
            Reply.WRONG_STATE, Reply.MISSING, Reply.OK, Reply.WRONG_STATE, Reply.OK
        ]  # fmt: skip
        assert [bool(answer) for answer in answers] == [False, False, True, False, True]
        assert answers[3].waiting == (ChainRef("w", "w", waiter.run),)
        assert await left(app) == {"a", "b", "w"}


async def test_cascade_takes_those_outside_and_nobody_is_called_missing(anywhere: Holdfast) -> None:
    """An outsider stands between two of them: the second goes with the first, by cascade."""
    async with anywhere as app:
        await line(app, "j0", "outside", "j2", "outside too")
        answers = await app.delete_chains([("a", "j0"), ("a", "j2")], cascade=True)
        assert [answer.reply for answer in answers] == [Reply.OK] * 2
        assert sum(answer.chains for answer in answers) == 4
        assert await left(app) == set()


async def test_one_run_of_an_id_is_meant_by_its_ref(anywhere: Holdfast) -> None:
    async with anywhere as app:
        first = await app.queue("a").enqueue(1, job_id="j")
        await app.cancel("a", "j")
        second = await app.queue("a").enqueue(2, job_id="j")
        (deleted,) = await app.delete_chains([ChainRef("a", "j", first.run)])
        assert deleted.reply is Reply.OK
        assert [job.run for job in (await app.jobs()).jobs] == [second.run]
        assert await app.delete_chains([]) == []


async def test_what_names_no_chain_is_refused(app: Holdfast) -> None:
    async with app:
        with pytest.raises(ConfigError, match=r"give a ChainRef, or queue and id: \('orders', 'order-7'\)"):
            await app.delete_chains(["order-7"])  # type: ignore[list-item]


async def test_a_circle_is_deleted_when_all_of_it_is_named(anywhere: Holdfast) -> None:
    """A chain goes on with a job that waits for a chain which waits for it."""
    app = anywhere

    @app.task(queue="a")
    async def begin(job: Job) -> Continued[None]:
        return job.continue_with(end.options(blockers=[("b", "waits")]))

    @app.task(queue="a")
    async def end() -> None: ...

    async with app:
        await begin.options(job_id="begins").enqueue()
        await app.queue("b").enqueue(1, job_id="waits", blockers=[("a", "begins")])
        await burst(app, "a")
        circle = [("a", "begins"), ("b", "waits")]
        for some in (circle[:1], circle[1:]):
            (refused,) = await app.delete_chains(some)
            assert refused.reply is Reply.WRONG_STATE
        assert all(await app.delete_chains(circle))
        assert await left(app) == set()
