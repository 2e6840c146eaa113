"""Every screen: it is there, says what it shows, fits a telephone, and asks no other host for anything."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser_case import Complaints, Served
from browser_shop import shop
from playwright.sync_api import Page, expect
from support import eventually

from holdfast import Holdfast


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A shop with a job of every kind."""
    made = Served(shop())
    made.do(fill(made.app))
    yield made
    made.close()


async def fill(app: Holdfast) -> None:
    """There is a job of every kind, and each has come as far as it goes."""
    tasks = app.registry.tasks
    for number in range(3):
        await tasks["charge"].options(job_id=f"charge-{number}", tags=["vip"]).enqueue("order", password="hunter2")
    await tasks["charge"].options(job_id="expired", headers={"trace": "t-1"}).enqueue("order-9", card="expired")
    await tasks["charge"].options(job_id="down").enqueue("order-10", card="down")
    await tasks["send"].options(job_id="later", delay=3600).enqueue("ann")
    await tasks["pack"].options(job_id="parcel").enqueue("order-11")
    await tasks["resize"].options(job_id="photo", key="acme").enqueue("a.jpg")
    await tasks["approve"].options(job_id="deal").enqueue("order-12")
    flow = app.flow("import")
    parts = flow.group((tasks["send"].args(f"p{number}") for number in range(20)), name="part")
    flow.add(tasks["approve"].args("sum"), after=parts, name="sum")
    await flow.start()

    async def settled() -> bool:
        states = {job.id: job.state for job in await app.client.look.look_up(["down", "photo", "deal", "import/sum"])}
        chain = await app.chain("mail", "parcel")
        return states["down"] == "failed" and states["photo"] == "active" and chain.state == "completed"

    await eventually(settled)


SCREENS = {
    "/": ("Overview", ["payments", "Needs attention", "Throughput"]),
    "/queues": ("Queues", ["payments", "Concurrency"]),
    "/queue?name=photos": ("photos", ["Limits and settings", "acme", "resize"]),
    "/jobs": ("Jobs", ["charge-0", "expired"]),
    "/jobs?state=failed": ("Jobs", ["CardExpired", "down"]),
    "/job?queue=payments&id=expired": (
        "expired",
        ["the card of order-9 has expired", "Traceback", "Counters and policy"],
    ),
    "/job?queue=payments&id=charge-1": ("charge-1", ["[redacted]", "vip", "worker-1", "completed"]),
    "/job?queue=photos&id=photo": ("photo", ["half of it", "Checkpoint", "acme", "Kill"]),
    "/job?queue=mail&id=later": ("later", ["scheduled", "Run now"]),
    "/chains": ("Chains and flows", ["parcel", "pack"]),
    "/graph?queue=mail&id=parcel": ("parcel", ["Result of the chain", "sent to order-11"]),
    "/graph?queue=mail&id=import/part/0": ("import/part/0", ["20 jobs", "approve", "20 of 21 jobs are finished"]),
    "/failures": ("Failures", ["CardExpired", "ConnectionError", "Requeue all"]),
    "/schedules": ("Schedules", ["nightly", "Europe/Berlin", "hourly", "Trigger"]),
    "/workers": ("Workers", ["worker-1", "photo", "slots"]),
    "/events": ("Events", ["enqueue", "payments/expired"]),
    "/lake": ("Lake", ["No lake is configured"]),
    "/help": ("Keyboard shortcuts", ["overview"]),
}


@pytest.mark.parametrize("path", SCREENS)
def test_a_screen_shows_what_it_is_for(page: Page, served: Served, path: str) -> None:
    heading, texts = SCREENS[path]
    hosts: set[str] = set()
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    answer = page.goto(served.url(path))
    assert answer is not None
    assert answer.status == 200
    expect(page.get_by_role("heading", level=1)).to_contain_text(heading)
    for text in texts:
        expect(page.locator("main")).to_contain_text(text)
    expect(page.locator("#live")).to_have_text("live")
    assert hosts == {f"127.0.0.1:{served.port}"}
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate("[...document.querySelectorAll('table')].every(each => each.querySelector('th[scope]'))")
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(ids) == len(set(ids))
    page.set_viewport_size({"width": 375, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 375


NAMELESS = """() => [
    ...[...document.querySelectorAll("input:not([type=hidden]), select, textarea, button, a[href]")]
        .filter(each => !each.labels?.length && !each.getAttribute("aria-label") && !each.textContent.trim()),
    ...[...document.querySelectorAll("main svg")].filter(
        each => !each.getAttribute("aria-hidden") && !each.hasAttribute("aria-label") && !each.closest("svg[role]")),
].map(each => each.outerHTML)"""
"""What a screen reader would have no name for."""


def test_the_menu_of_a_telephone_begins_where_the_page_is(page: Page, served: Served) -> None:
    page.set_viewport_size({"width": 375, "height": 700})
    page.goto(served.url("/workers"))
    expect(page.locator(".menu a[aria-current]")).to_be_in_viewport(ratio=1)


def test_the_first_tab_stop_leads_to_the_content(page: Page, served: Served) -> None:
    page.goto(served.url("/jobs"))
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the content")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_keys_lead_to_pages_and_rows(page: Page, served: Served) -> None:
    page.goto(served.url("/"))
    expect(page.locator("#live")).to_have_text("live")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Keyboard shortcuts")
    page.keyboard.press("Escape")
    page.keyboard.type("gj")
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    expect(page.locator("#live")).to_have_text("live")
    page.keyboard.press("/")
    expect(page.get_by_label("Id begins with")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("#picked")).to_have_text("1 selected:")
    page.keyboard.press("Enter")
    expect(page.locator(".crumbs")).to_contain_text("Jobs")


def test_colours_are_chosen_and_kept(page: Page, served: Served) -> None:
    page.goto(served.url("/queues"))
    for theme in ("dark", "light"):
        page.locator("#theme").click()
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        expect(page.get_by_role("heading", level=1)).to_have_text("Queues")
    page.locator("#theme").click()
    expect(page.locator("html[data-theme]")).to_have_count(0)


def test_filters_are_part_of_the_address(page: Page, served: Served) -> None:
    page.goto(served.url("/jobs"))
    page.get_by_label("Id begins with").fill("charge-")
    page.get_by_label("Queue", exact=True).select_option("payments")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("tr[data-row]")).to_have_count(3)
    assert "id=charge-" in page.url
    assert "queue=payments" in page.url
    page.goto(served.url("/jobs?tag=vip&state=completed"))
    expect(page.locator("tr[data-row]")).to_have_count(3)
    page.goto(served.url("/jobs?worker=worker-1"))
    expect(page.locator("main")).to_contain_text("photo")
    page.goto(served.url("/jobs?after=2999-01-01"))
    expect(page.locator("main")).to_contain_text("No job matches")
    page.get_by_label("Time").select_option("finished")
    page.get_by_label("After (UTC)").fill("2020-01-01T00:00:00")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("row", name="charge-0")).to_be_visible()
    expect(page.get_by_role("row", name="later")).to_have_count(0)
    assert "time=finished" in page.url


def test_others_with_the_same_error_are_one_click_away(page: Page, served: Served) -> None:
    page.goto(served.url("/job?queue=payments&id=expired"))
    page.get_by_role("link", name="others like it").click()
    expect(page.locator("tr[data-row]")).to_have_count(1)
    expect(page.locator("main")).to_contain_text("CardExpired")


def test_pages_work_without_a_script(browser, served: Served) -> None:  # type: ignore[no-untyped-def]
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(served.url("/queues"))
    page.get_by_role("row", name="mail").get_by_role("button", name="Pause").click()
    expect(page.get_by_role("status").filter(has_text="Queue mail is paused")).to_be_visible()
    page.get_by_role("row", name="mail").get_by_role("button", name="Resume").click()
    expect(page.get_by_role("status").filter(has_text="Queue mail is resumed")).to_be_visible()
    page.goto(served.url("/jobs?state=completed&id=charge-"))
    page.get_by_label("Select charge-2").check()
    page.get_by_role("button", name="Requeue").click()
    page.get_by_role("button", name="Requeue").click()
    expect(page.get_by_role("status").filter(has_text="1 jobs run again")).to_be_visible()
    context.close()


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/nowhere", 404, "Not Found"),
        ("/job?queue=payments&id=none", 404, "there is no job payments/none"),
        ("/job?queue=payments", 400, "its queue and id"),
        ("/jobs?state=odd", 400, "known are"),
        ("/jobs?after=soon", 400, "give a date and time"),
        ("/jobs?time=lunch", 400, "known are enqueued, started, finished"),
        ("/jobs?colour=red", 400, "'colour' is no filter of this list; known are state, queue"),
        ("/jobs?cursor=rubbish", 400, "cursor"),
        ("/queue?name=none", 404, "there is no queue"),
        ("/operation?key=none", 404, "knows no operation"),
        ("/lake?days=x", 400, "a number of days"),
        ("/data?queue=payments&id=charge-1&part=soul", 400, "payload, result or checkpoint"),
    ],
)
def test_an_error_says_what_to_do(
    page: Page, served: Served, path: str, status: int, says: str, complaints: Complaints
) -> None:
    answer = page.goto(served.url(path))
    assert answer is not None
    assert answer.status == status
    expect(page.locator("main")).to_contain_text(says)
    expect(page.get_by_role("link", name="Overview")).to_be_visible()
    complaints.expected = True
