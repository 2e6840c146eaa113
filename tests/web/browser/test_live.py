"""A page that stays open: it is kept up to date, says when it cannot be, and recovers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from browser_case import Complaints, Served
from browser_shop import shop
from playwright.sync_api import Page, expect
from support import Flaky

from holdfast.errors import StoreError
from holdfast.store import open_store


@pytest.fixture
def served() -> Iterator[Served]:
    """A shop without a worker, whose store can be made to fail."""
    store = Flaky(open_store("memory://"))
    made = Served(shop(store=store), worker=False)
    yield made
    made.close()


def send(served: Served, id: str, **options: object) -> None:
    """The job waits."""
    served.do(served.app.registry.tasks["send"].options(job_id=id, **options).enqueue("ann"))


def test_what_happens_is_shown_without_a_reload(page: Page, served: Served) -> None:
    send(served, "first")
    page.goto(served.url("/jobs?state=waiting"))
    expect(page.locator("#live")).to_have_text("live")
    page.evaluate("window.same = true")
    page.get_by_label("Select first").check()
    send(served, "second")
    expect(page.locator("#list")).to_contain_text("second")
    expect(page.get_by_label("Select first")).to_be_checked()
    expect(page.locator("#tabs")).to_contain_text("waiting 2")
    assert page.evaluate("window.same")


def test_the_overview_counts_on(page: Page, served: Served) -> None:
    page.goto(served.url("/"))
    expect(page.locator("#queues")).to_contain_text("No queue yet")
    send(served, "one")
    expect(page.locator("#attention")).to_contain_text("1 job waits in mail, and no worker serves it")
    expect(page.locator("#queues")).to_contain_text("mail")


def test_events_are_tailed(page: Page, served: Served) -> None:
    page.goto(served.url("/events?transition=enqueue"))
    expect(page.locator("#tail")).to_contain_text("No event")
    send(served, "seen")
    expect(page.locator("#tail")).to_contain_text("mail/seen")


def test_updates_wait_while_someone_types_or_confirms(page: Page, served: Served) -> None:
    send(served, "calm", delay=3600)
    page.goto(served.url("/job?queue=mail&id=calm"))
    page.locator("summary", has_text="Cancel").click()
    served.do(served.app.client.promote("mail", "calm"))
    expect(page.locator("#sub")).to_contain_text("waiting")
    expect(page.locator("details[open]").get_by_role("button", name="Cancel", exact=True)).to_be_visible()


def test_updates_are_paused_by_a_key(page: Page, served: Served) -> None:
    page.goto(served.url("/events"))
    expect(page.locator("#live")).to_have_text("live")
    page.keyboard.press("p")
    expect(page.locator("#live")).to_have_text("paused")
    send(served, "unseen")
    page.keyboard.press("p")
    expect(page.locator("#tail")).to_contain_text("unseen")


def test_a_store_that_goes_away_is_told_of_until_it_is_back(page: Page, served: Served, complaints: Complaints) -> None:
    page.goto(served.url("/"))
    expect(page.locator("#live")).to_have_text("live")
    flaky: Flaky = served.app.store  # type: ignore[assignment]
    for method in ("events", "queues", "sessions", "now_ms"):
        flaky.refuse(method, StoreError("the server is away"), 10_000)
    expect(page.locator("#away")).to_contain_text("The store cannot be reached")
    expect(page.locator("#live")).to_have_text("not up to date")
    flaky._plans.clear()
    expect(page.locator("#away")).to_be_hidden(timeout=20_000)
    expect(page.locator("#live")).to_have_text("live")
    complaints.expected = True


def test_a_page_asked_for_while_the_store_is_away_comes_back_by_itself(
    page: Page, served: Served, complaints: Complaints
) -> None:
    flaky: Flaky = served.app.store  # type: ignore[assignment]
    flaky.refuse("queues", StoreError("the server is away"), 10_000)
    page.goto(served.url("/queues"))
    expect(page.locator("main")).to_contain_text("the server is away")
    flaky._plans.clear()
    expect(page.get_by_role("heading", level=1)).to_have_text("Queues", timeout=20_000)
    complaints.expected = True


def test_a_server_that_goes_away_is_told_of_until_it_is_back(
    page: Page, served: Served, complaints: Complaints
) -> None:
    page.goto(served.url("/"))
    expect(page.locator("#live")).to_have_text("live")
    served.stop()
    expect(page.locator("#away")).to_be_visible()
    served.start()
    expect(page.locator("#live")).to_have_text("live", timeout=20_000)
    expect(page.locator("#away")).to_be_hidden()
    complaints.expected = True


def test_a_browser_left_open_over_a_deploy_is_told_to_reload(
    page: Page, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    page.goto(served.url("/"))
    expect(page.locator("#deployed")).to_be_hidden()
    monkeypatch.setattr("holdfast.web.dashboard.live.__version__", "99.0")
    send(served, "news")
    expect(page.locator("#deployed")).to_contain_text("There is a new version")


def test_charts_say_their_values_under_the_pointer(page: Page, served: Served) -> None:
    page.goto(served.url("/"))
    page.locator(".plot .area").first.hover()
    expect(page.locator(".plot .tip").first).to_contain_text(re.compile("completed"))
