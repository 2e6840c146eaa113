"""Words that no store can have: refused by name, at every way in, on every store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from places import STORES, place

from holdfast import ChainRef, ConfigError, Dedup, Every, Holdfast

ODD = ["a\ud800b", "\udfff", "a\0b"]


@pytest.fixture(params=STORES)
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Holdfast]:
    with place(request.param, tmp_path) as url:
        yield Holdfast(url)


async def every(items: Any) -> list[Any]:
    return [item async for item in items]


def ways(app: Holdfast, send: Any, odd: str) -> dict[str, Any]:
    """Return every way to give a word, by the name of its option."""
    queue = app.queue("q")
    return {
        "job_id of status": lambda: app.status("q", odd),
        "queue of status": lambda: app.status(odd, "a"),
        "job_id of cancel": lambda: app.cancel("q", odd),
        "queue of cancel": lambda: app.cancel(odd, "a"),
        "job_id of task.status": lambda: send.status(odd),
        "job_id of task.cancel": lambda: send.cancel(odd),
        "job_id of task.result": lambda: send.result(odd),
        "job_id of task.complete": lambda: send.complete(odd, None),
        "job_id of queue.status": lambda: queue.status(odd),
        "job_id of queue.cancel": lambda: queue.cancel(odd),
        "job_id of queue.promote": lambda: queue.promote(odd),
        "job_id of queue.delete": lambda: queue.delete(odd),
        "job_id of queue.result": lambda: queue.result(odd),
        "job_id of queue.keep_result": lambda: queue.keep_result(odd, 5),
        "job_id of requeue": lambda: app.requeue(odd),
        "queue of requeue": lambda: app.requeue("a", queue=odd),
        "task of requeue": lambda: app.requeue(task=odd),
        "queue of jobs": lambda: app.jobs(queue=odd),
        "task of jobs": lambda: app.jobs(task=odd),
        "key of jobs": lambda: app.jobs(key=odd),
        "cursor of jobs": lambda: app.jobs(cursor=odd),
        "chain of jobs": lambda: app.jobs(chain=ChainRef("q", odd, 1)),
        "queue of chain": lambda: app.chain(odd, "a"),
        "job_id of chain": lambda: app.chain("q", odd),
        "queue of chains": lambda: app.chains(queue=odd),
        "task of chains": lambda: app.chains(task=odd),
        "job_id of complete_chain": lambda: app.complete_chain("q", odd),
        "job_id of delete_chain": lambda: app.delete_chain("q", odd),
        "queue of events": lambda: every(app.events(queue=odd)),
        "after of events": lambda: every(app.events(after=odd)),
        "job_id of events": lambda: every(queue.events(job_id=odd)),
        "queue of app.queue": lambda: app.queue(odd).info(),
        "key of limit_key": lambda: queue.limit_key(odd, 1),
        "task of adjust": lambda: queue.adjust(odd, failures=1),
        "schedule of get": lambda: app.schedules.get(odd),
        "queue of get": lambda: app.schedules.get("s", queue=odd),
        "queue of list": lambda: app.schedules.list(queue=odd),
        "schedule of pause": lambda: app.schedules.pause(odd),
        "schedule of remove": lambda: app.schedules.remove(odd),
        "schedule of trigger": lambda: app.schedules.trigger(odd),
        "schedule of add": lambda: app.schedules.add(odd, Every(60), send.args()),
        "job_id of options": lambda: send.options(job_id=odd).enqueue(),
        "key of options": lambda: send.options(key=odd).enqueue(),
        "headers of options": lambda: send.options(headers={"a": odd}).enqueue(),
        "Dedup of options": lambda: send.options(dedup=Dedup(odd)).enqueue(),
        "exclude of options": lambda: send.options(dedup=Dedup("k", exclude=(odd,))).enqueue(),
        "blockers of options": lambda: send.options(blockers=[("q", odd)]).enqueue(),
        "queue of worker": lambda: app.worker([odd]).run(burst=True),
        "name of worker": lambda: app.worker(["q"], name=odd).run(burst=True),
        "flow of flow": lambda: app.flow(odd).start(),
    }


async def test_a_word_that_no_store_can_have_is_refused_by_name(app: Holdfast) -> None:
    @app.task(queue="q")
    async def send() -> None: ...

    wrong = []
    async with app:
        for odd in ODD:
            for way, use in ways(app, send, odd).items():
                try:
                    wrong.append((way, odd, await use()))
                except ConfigError as error:
                    if way.split()[0] not in str(error):
                        wrong.append((way, odd, error))
                except Exception as error:
                    wrong.append((way, odd, error))
    assert wrong == []
