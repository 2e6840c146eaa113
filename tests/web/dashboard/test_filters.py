"""Lists with filters in their address: one that is none is refused, and what is shown and done keeps to them."""

from __future__ import annotations

import pytest
from support import eventually
from web_case import serving

from holdfast import Holdfast, Permanent
from holdfast.testing import drain


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("/events?colour=red", "is no filter of this list; known are queue, id, transition, task"),
        ("/events?transition=explode", "is none; known are enqueue, update"),
        ("/failures?colour=red", "is no filter of this list; known are queue"),
        ("/chains?queue=mail", "is no filter of this list; known are none"),
    ],
)
async def test_what_is_no_filter_is_refused(url: str, address: str, words: str) -> None:
    async with serving(url) as client:
        answer = await client.get(f"http://localhost{address}")
        assert (answer.status_code, words in answer.text) == (400, True), answer.text


async def test_failures_of_a_queue_are_shown_and_requeued_in_that_queue_alone() -> None:
    app = Holdfast("memory://")

    async def broken(payload: int) -> None:
        raise Permanent("no")

    for name in ("one", "two"):
        app.queue(name, handler=broken)
    async with serving(app) as client:
        for name in ("one", "two"):
            await app.queue(name).enqueue(1)
        await drain(app)

        async def page(queue: str) -> str:
            return (await client.get("http://localhost/failures", params={"queue": queue})).text

        async def seen() -> bool:
            return "Permanent" in await page("one")

        await eventually(seen)
        assert '<input type="hidden" name="queue" value="one">' in await page("one"), "Requeue all is about this queue"
        assert '<span class="tag">queue one</span>' in await page("one")
        assert "Nothing fails in three" in await page("three")
