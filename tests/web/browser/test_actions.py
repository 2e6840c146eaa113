"""Every action of every page, and what the store says afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from browser_case import Complaints, Served
from playwright.sync_api import Page, expect
from support import until

from holdfast.core.state import State


def enqueue(served: Served, task: str, id: str, *args: Any, **options: Any) -> None:
    """The job is in the store."""
    served.do(served.app.registry.tasks[task].options(job_id=id, **options).enqueue(*args))


def state(served: Served, queue: str, id: str) -> State:
    """Return where a job stands."""
    return served.do(served.app.status(queue, id)).state


def reaches(served: Served, queue: str, id: str, wanted: str) -> None:
    """The job comes to a state."""
    until(lambda: state(served, queue, id) == wanted, f"{id} is {wanted}")


def said(page: Page, text: str) -> None:
    """The page says what became of an action."""
    expect(page.locator(".note-bar[role=status]").filter(has_text=text)).to_be_visible()


def confirm(page: Page, label: str) -> None:
    """Open the panel of an action, and confirm it."""
    page.locator("summary", has_text=label).first.click()
    page.locator("details[open]").get_by_role("button", name=label, exact=True).click()


def test_a_scheduled_job_is_run_now(page: Page, served: Served) -> None:
    enqueue(served, "send", "soon", "ann", delay=3600)
    page.goto(served.url("/job?queue=mail&id=soon"))
    page.get_by_role("button", name="Run now").click()
    said(page, "soon may run now")
    reaches(served, "mail", "soon", "completed")
    expect(page.locator("#sub")).to_contain_text("completed")


def test_a_scheduled_job_is_cancelled_and_requeued(page: Page, served: Served) -> None:
    enqueue(served, "send", "off", "ann", delay=3600)
    page.goto(served.url("/job?queue=mail&id=off"))
    confirm(page, "Cancel")
    said(page, "off is cancelled")
    expect(page.get_by_role("button", name="Run now")).to_have_count(0)
    page.get_by_role("button", name="Requeue").click()
    said(page, "off runs again")
    page.goto(served.url("/job?queue=mail&id=off"))
    reaches(served, "mail", "off", "completed")


def test_a_running_job_is_told_to_stop(page: Page, served: Served) -> None:
    enqueue(served, "resize", "long", "a.jpg")
    reaches(served, "photos", "long", "active")
    page.goto(served.url("/job?queue=photos&id=long"))
    expect(page.get_by_role("button", name="Requeue")).to_have_count(0)
    confirm(page, "Cancel")
    said(page, "long was told to stop")
    until(lambda: state(served, "photos", "long").finished, "long ends")


def test_a_job_is_deleted(page: Page, served: Served, complaints: Complaints) -> None:
    enqueue(served, "send", "gone", "ann", delay=3600)
    page.goto(served.url("/job?queue=mail&id=gone"))
    confirm(page, "Delete")
    expect(page.locator("main")).to_contain_text("there is no job mail/gone")
    complaints.expected = True


def test_a_deal_is_approved_with_a_typed_value(page: Page, served: Served) -> None:
    enqueue(served, "approve", "deal", "order-1", delay=3600)
    page.goto(served.url("/graph?queue=approvals&id=deal"))
    page.locator("summary", has_text="Approve").click()
    page.get_by_label("Result, as JSON").fill("not json")
    page.get_by_role("button", name="Complete").click()
    said(page, "The result is no JSON")
    page.locator("summary", has_text="Approve").click()
    page.get_by_label("Result, as JSON").fill('{"by": "ann", "cents": 4200}')
    page.get_by_role("button", name="Complete").click()
    said(page, "deal is completed")
    expect(page.locator("main")).to_contain_text('"cents": 4200')


def test_a_queue_is_paused_and_resumed(page: Page, served: Served) -> None:
    page.goto(served.url("/queue?name=mail"))
    page.get_by_role("button", name="Pause").click()
    said(page, "Queue mail is paused")
    enqueue(served, "send", "held", "ann")
    page.goto(served.url("/"))
    expect(page.locator("#attention")).to_contain_text("mail is paused")
    page.locator("#attention").get_by_role("link", name="look").first.click()
    page.get_by_role("button", name="Resume").click()
    said(page, "Queue mail is resumed")
    reaches(served, "mail", "held", "completed")


def test_a_limit_is_set_told_of_and_reset(page: Page, served: Served) -> None:
    page.goto(served.url("/queue?name=photos"))
    row = page.get_by_role("row", name="Concurrency").first
    expect(row).to_contain_text("code")
    page.get_by_label("Concurrency", exact=True).fill("2")
    row.get_by_role("button", name="Set", exact=True).click()
    said(page, "Concurrency of photos is 2")
    expect(row).to_contain_text("operator")
    info = served.do(served.app.queue("photos").info())
    assert info is not None
    assert info.settings.concurrency == 2
    row.get_by_role("button", name="Reset").click()
    said(page, "as the code declares it")
    expect(row).to_contain_text("4")


@pytest.mark.parametrize(
    ("text", "says"), [("20/s burst 5", "Rate of photos is 20/s burst 5"), ("a lot", "write how many")]
)
def test_a_rate_is_written_in_words(page: Page, served: Served, text: str, says: str) -> None:
    page.goto(served.url("/queue?name=photos"))
    page.get_by_label("Rate", exact=True).fill(text)
    page.get_by_role("row", name="Rate").first.get_by_role("button", name="Set", exact=True).click()
    said(page, says)


def test_a_key_gets_a_limit_of_its_own(page: Page, served: Served) -> None:
    enqueue(served, "resize", "acme-1", "a.jpg", key="acme")
    page.goto(served.url("/queue?name=photos"))
    page.get_by_label("Limit of acme").fill("1")
    page.get_by_role("row", name="acme").get_by_role("button", name="Set", exact=True).click()
    said(page, "Key acme runs at most 1 at once")
    expect(page.get_by_role("row", name="acme")).to_contain_text("own")
    served.do(served.app.cancel("photos", "acme-1", "signal"))


def test_a_schedule_is_triggered_paused_changed_and_cleared(page: Page, served: Served) -> None:
    page.goto(served.url("/schedules"))
    row = page.get_by_role("row", name="nightly")
    row.get_by_role("button", name="Trigger").click()
    said(page, "nightly was triggered")
    expect(row).to_contain_text("completed")
    row.get_by_role("button", name="Pause").click()
    said(page, "nightly is paused")
    row.get_by_role("button", name="Resume").click()
    said(page, "nightly is resumed")
    row.locator("summary", has_text="Change").click()
    row.get_by_label("When: a cron text").fill("30 4 * * MON")
    row.get_by_role("button", name="Change", exact=True).click()
    said(page, "30 4 * * MON")
    expect(row).to_contain_text("changed")
    row.locator("summary", has_text="Change").click()
    row.get_by_role("button", name="As the code declares it").click()
    said(page, "nightly is as the code declares it")
    expect(row).to_contain_text("0 3 * * *")


def test_a_slip_in_a_schedule_is_told_of(page: Page, served: Served) -> None:
    page.goto(served.url("/schedules"))
    row = page.get_by_role("row", name="nightly")
    row.locator("summary", has_text="Change").click()
    row.get_by_label("When: a cron text").fill("61 25 * * *")
    row.get_by_role("button", name="Change", exact=True).click()
    expect(page.locator(".note-bar.bad[role=status]")).to_be_visible()


def test_selected_jobs_are_counted_before_anything_happens(page: Page, served: Served) -> None:
    for number in range(5):
        enqueue(served, "send", f"pick-{number}", "ann", delay=3600)
    page.goto(served.url("/jobs?id=pick-&state=scheduled"))
    expect(page.get_by_role("button", name="Cancel selected")).to_be_disabled()
    page.get_by_label("Select pick-1").check()
    page.get_by_label("Select pick-3").check()
    expect(page.locator("#picked")).to_have_text("2 selected:")
    page.get_by_role("button", name="Cancel selected").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Cancel 2 jobs?")
    assert state(served, "mail", "pick-1") == "scheduled"
    page.get_by_role("button", name="Cancel", exact=True).click()
    said(page, "2 jobs are cancelled")
    assert [state(served, "mail", f"pick-{number}") for number in range(5)].count(State.CANCELLED) == 2


def test_all_that_match_are_promoted_with_a_count_first(page: Page, served: Served) -> None:
    for number in range(5):
        enqueue(served, "send", f"all-{number}", "ann", delay=3600)
    page.goto(served.url("/jobs?id=all-&state=scheduled"))
    page.get_by_label("all that match").check()
    page.get_by_role("button", name="Run now all").click()
    expect(page.locator("main")).to_contain_text("5 jobs match")
    page.get_by_role("link", name="Leave them alone").click()
    assert state(served, "mail", "all-1") == "scheduled"
    page.get_by_label("all that match").check()
    page.get_by_role("button", name="Run now all").click()
    page.get_by_role("button", name="Run now").click()
    expect(page.locator("#operation")).to_contain_text("5 of 5 done")
    expect(page.locator("#operation")).to_contain_text("All done")
    page.get_by_role("link", name="Back to the jobs").click()
    for number in range(5):
        reaches(served, "mail", f"all-{number}", "completed")


def test_a_group_of_failures_is_requeued(page: Page, served: Served) -> None:
    for number in range(3):
        enqueue(served, "charge", f"bad-{number}", "order", "expired")
    for number in range(3):
        reaches(served, "payments", f"bad-{number}", "failed")
    first = served.do(served.app.status("payments", "bad-0")).run
    page.goto(served.url("/failures"))
    page.get_by_role("row", name="CardExpired").get_by_role("button", name="Requeue all").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Requeue 3 jobs?")
    page.get_by_role("button", name="Requeue").click()
    expect(page.locator("#operation")).to_contain_text("3 of 3 done")
    assert served.do(served.app.status("payments", "bad-0")).run > first


def test_no_selection_is_told_of(page: Page, served: Served, complaints: Complaints) -> None:
    enqueue(served, "send", "alone", "ann", delay=3600)
    page.goto(served.url("/jobs?id=alone"))
    page.locator("#bulk button").first.evaluate("button => { button.disabled = false; button.click(); }")
    expect(page.locator("main")).to_contain_text("no job was selected")
    complaints.expected = True


@pytest.mark.parametrize(("label", "drain"), [("Drain", True), ("Stop", False)])
def test_a_worker_is_told_to_end(
    page: Page, served: Served, monkeypatch: pytest.MonkeyPatch, label: str, drain: bool
) -> None:
    told: list[tuple[str, bool]] = []

    async def stop_worker(worker: str, *, drain: bool = True) -> list[str]:
        told.append((worker, drain))
        return [worker]

    monkeypatch.setattr(served.app, "stop_worker", stop_worker, raising=False)
    page.goto(served.url("/workers"))
    confirm(page, label)
    said(page, "it hears of it within a heartbeat")
    (info,) = served.do(served.app.workers())
    assert told == [(info.session.id, drain)]
