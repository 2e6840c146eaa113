"""Who acts: in tasks, threads and the synchronous facade, and what cannot be a name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support import run

from holdfast import ConfigError, Every, Holdfast


async def acted(app: Holdfast) -> list[tuple[str, str | None, str | None]]:
    return [
        (event.transition, event.cause, event.actor) async for event in app.events() if event.transition != "enqueue"
    ]


async def test_each_task_has_its_own_actor_and_blocks_nest(app: Holdfast) -> None:
    async def act(name: str) -> None:
        with app.acting_as(name):
            await asyncio.sleep(0)
            await app.queue(name).pause()

    async with app:
        with app.acting_as("outer"):
            await asyncio.gather(act("ann"), act("bob"))
            await app.queue("mail").resume()
        await app.queue("mail").pause()
        told = {(event.queue, event.actor) for event in [each async for each in app.events()]}
    assert told == {("ann", "ann"), ("bob", "bob"), ("mail", "outer"), ("mail", None)}


def test_the_synchronous_facade_has_the_actor_of_its_caller(app: Holdfast) -> None:
    with app.sync:
        with app.acting_as("ann"):
            app.sync(app.queue("mail").pause())
        app.sync(app.queue("mail").resume())
        assert app.sync(acted(app)) == [("operate", "configure", "ann"), ("operate", "configure", None)]


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", "x" * 300, 5])
def test_what_is_no_name_is_refused(app: Holdfast, name: Any) -> None:
    async def act() -> None:
        with app.acting_as(name):
            pytest.fail("it is no name")

    with pytest.raises(ConfigError, match="actor"):
        run(act())


async def test_a_schedule_is_told_of_with_each_change_and_a_trigger_is_one_step(app: Holdfast) -> None:
    @app.task(queue="beats")
    async def beat(word: str) -> str:
        return word

    heard: list[str] = []
    app.on("enqueue")(lambda each: heard.append(each.id or ""))
    async with app:
        with app.acting_as("ann"):
            await app.schedules.add("s", Every(60), beat.args("x"))
            await app.schedules.add("s", Every(60), beat.args("x"))
            await app.schedules.pause("s")
            handle = await app.schedules.trigger("s")
            await app.schedules.resume("s")
            await app.schedules.change("s", spec=Every(30))
            await app.schedules.remove("s")
        told = [event async for event in app.events()]
    assert [each.message for each in told if each.transition == "operate"] == [
        f'{{"change":"{word}","schedule":"s"}}' for word in ("add", "pause", "trigger", "resume", "change", "remove")
    ]
    assert {each.actor for each in told if each.transition == "operate"} == {"ann"}
    assert heard == [handle.id] == [each.id for each in told if each.transition == "enqueue"]
