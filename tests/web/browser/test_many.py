"""Ten thousand failed jobs: they are listed by pages, and requeued or deleted by filter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser_case import Served
from browser_shop import shop
from places import place
from playwright.sync_api import Page, expect

from holdfast.core.job import ErrorRecord
from holdfast.core.limit import Retention
from holdfast.store.contract import Failed, Session

MANY = 10_000


@pytest.fixture(scope="module", params=["sqlite", "postgres", "redis"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A shop in which everything went wrong, and no worker, on each store."""
    with place(request.param, tmp_path_factory.mktemp("many")) as url:
        made = Served(shop(url), worker=False)
        made.app.queue("payments", retention=Retention(failed_count=2 * MANY))
        made.do(_fail(made))
        yield made
        made.close()


async def _fail(served: Served) -> None:
    app = served.app
    charge = app.registry.tasks["charge"]
    await charge.enqueue_many(charge.options(job_id=f"bad-{number:05}").args("order") for number in range(MANY))
    session = Session(id="s", name="breaker", host="h", pid=1, queues=("payments",), slots=1000)
    await app.store.register(session)
    error = ErrorRecord(type="BankDown", message="no answer", traceback='File "bank.py", line 1, in call')
    settlements: list[Failed] = []
    while True:
        turn = await app.store.settle_and_claim(session, settlements, ["payments"], 1000)
        settlements = [Failed(claimed.lease, error) for claimed in turn.claimed]
        if not settlements:
            break
    await app.store.leave(session)


def test_ten_thousand_failed_jobs_are_paged_grouped_and_deleted(page: Page, served: Served) -> None:
    page.goto(served.url("/jobs?state=failed"))
    expect(page.locator("#tabs")).to_contain_text("10.0k")
    expect(page.locator("tr[data-row]")).to_have_count(50)
    for _ in range(3):
        page.get_by_role("link", name="Older").click()
        expect(page.locator("tr[data-row]")).to_have_count(50)
    page.goto(served.url("/failures"))
    expect(page.get_by_role("row", name="BankDown")).to_contain_text("10,000")
    page.goto(served.url("/jobs?state=failed&queue=payments"))
    page.get_by_label("all that match").check()
    page.get_by_role("button", name="Delete all").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Delete 10,000 jobs?")
    page.get_by_label("Type 10000 to confirm").fill("10000")
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("#operation")).to_contain_text("10,000 of 10,000 done", timeout=60_000)
    page.get_by_role("link", name="Back to the jobs").click()
    expect(page.locator("main")).to_contain_text("No failed job")
