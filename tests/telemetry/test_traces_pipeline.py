"""The trace of an order, from the order to its parcels, on every store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from places import STORES, place
from spans import Recorder, attribute, context, is_child, links, recording
from support import eventually, working

from holdfast import Continued, Every, Holdfast, Job, Permanent, Retry
from holdfast.core.state import State


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty store of each kind."""
    with place(request.param, tmp_path) as url:
        yield url


class Orders:
    """A shop: an order is charged, at the second try, and shipped in parcels, with one label for all."""

    def __init__(self, url: str) -> None:
        app = self.app = Holdfast(url)

        @app.task(queue="mail")
        async def apologise(number: int) -> None: ...

        @app.task(queue="mail", on_failure=apologise)
        async def mail(number: int) -> None:
            raise Permanent("no such address")

        @app.task(queue="parcels")
        async def pack(part: int) -> int:
            return part

        @app.task(queue="parcels")
        async def label(job: Job) -> int:
            return sum(each.result for each in await job.blockers())

        @app.task(queue="orders")
        async def ship(number: int) -> int:
            flow = app.flow(f"order-{number}")
            flow.reduce(flow.map(pack, [1, 2, 3], name="part"), label.args(), name="label")
            await flow.start()
            await mail.options(job_id=f"mail-{number}").enqueue(number)
            return number

        @app.task(queue="orders", retry=Retry(initial=0.01))
        async def charge(job: Job, number: int) -> Continued[int]:
            if job.attempt == 1:
                raise ConnectionError("the bank is closed")
            return job.continue_with(ship, number)

        @app.task(queue="orders")
        async def order(job: Job, number: int) -> Continued[int]:
            return job.continue_with(charge, number)

        self.order, self.label = order, label

    async def run(self, spans: Recorder) -> None:
        """One order has been through the shop, with all that came of it."""
        async with working(self.app, slots=4):
            with spans.tracer.start_as_current_span("checkout"):
                handle = await self.order.options(job_id="o-1", headers={"tenant": "a"}).enqueue(1)
            assert await handle.result() == 1
            label = await eventually(lambda: self.finished("parcels", "order-1/label"))
            assert label.result == b"6"
            failed = (await self.app.status("mail", "mail-1")).run
            await eventually(lambda: self.finished("mail", f"mail-1/failed/{failed}"))

    async def finished(self, queue: str, id: str) -> object:
        """Return a job once it has completed."""
        found = await self.app.jobs(ids=[id], queue=queue)
        return next((job for job in found.jobs if job.state is State.COMPLETED), None)


async def test_an_order_is_one_trace_with_all_that_came_of_it(url: str) -> None:
    with recording() as spans:
        shop = Orders(url)
        await shop.run(spans)

    checkout, send, order = spans.one("checkout"), spans.one("send orders"), spans.of("order")
    assert is_child(send, checkout)
    assert is_child(order, send)
    assert links(order, send)
    first, second, ship = spans.of("charge", 1), spans.of("charge", 2), spans.of("ship")
    for attempt in (first, second):
        assert is_child(attempt, order)
        assert links(attempt, order)
    assert attribute(first, "holdfast.run") == attribute(second, "holdfast.run")
    assert (attribute(first, "holdfast.outcome"), attribute(second, "holdfast.outcome")) == ("retry", "complete")
    assert is_child(ship, second)

    bulk, label = spans.one("send parcels"), spans.of("label")
    assert is_child(bulk, ship)
    assert attribute(bulk, "messaging.batch.message_count") == 4
    packs = [span for span in spans.named("process parcels") if attribute(span, "holdfast.task") == "pack"]
    assert len(packs) == 3
    for span in (*packs, label):
        assert is_child(span, bulk)
        assert links(span, bulk)
    assert all(links(label, pack, "blocker") for pack in packs)

    send_mail, mail, apology = spans.one("send mail"), spans.of("mail"), spans.of("apologise")
    assert is_child(send_mail, ship)
    assert is_child(mail, send_mail)
    assert is_child(apology, send_mail)
    assert links(apology, mail, "failed")
    whole = {context(span).trace_id for span in spans.ended if not span.name.startswith("settle")}
    assert whole == {context(checkout).trace_id}


async def test_every_span_says_what_the_conventions_ask_for(url: str) -> None:
    with recording() as spans:
        await Orders(url).run(spans)

    for span in spans.ended:
        operation, _, queue = span.name.partition(" ")
        if operation == "checkout":
            continue
        assert attribute(span, "messaging.system") == "holdfast"
        assert attribute(span, "messaging.operation.name") == attribute(span, "messaging.operation.type") == operation
        assert attribute(span, "messaging.destination.name") == (queue or None)
        assert span.kind.name == {"send": "PRODUCER", "process": "CONSUMER", "settle": "CLIENT"}[operation]
    send, process = spans.one("send orders"), spans.of("order")
    assert attribute(send, "messaging.message.id") == attribute(process, "messaging.message.id") == "o-1"
    assert attribute(send, "holdfast.run") == attribute(process, "holdfast.run")
    assert attribute(send, "holdfast.status") == "queued"
    assert attribute(process, "holdfast.waited") >= 0
    failed = spans.of("mail")
    assert failed.status.status_code.name == "ERROR"
    assert failed.status.description == "Permanent: no such address"
    (event,) = failed.events
    assert event.name == "exception"
    assert dict(event.attributes or {})["exception.message"] == "no such address"
    assert "no such address" in str(dict(event.attributes or {})["exception.stacktrace"])
    assert attribute(failed, "error.type") == "Permanent"
    settled = [link.context.span_id for span in spans.ended if span.name.startswith("settle") for link in span.links]
    ran = [context(span).span_id for span in spans.ended if span.name.startswith("process")]
    assert sorted(settled) == sorted(ran)


async def test_the_ticks_of_a_schedule_are_traces_of_their_own(url: str) -> None:
    app = Holdfast(url)

    @app.task(queue="reports")
    async def report() -> None: ...

    app.schedule("pulse", Every(0.1), report.args())
    with recording() as spans:
        async with working(app):
            await eventually(lambda: len(spans.named("process reports")) >= 2)
    runs = spans.named("process reports")[:2]
    for span in runs:
        (sent,) = (each for each in spans.named("send reports") if is_child(span, each))
        assert sent.parent is None
        assert links(span, sent)
        assert attribute(span, "holdfast.schedule") == "pulse"
    assert len({context(span).trace_id for span in runs}) == 2
