"""Who may see and change what: logins, roles, and forms that were not ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_case import Complaints, Served
from browser_shop import shop
from playwright.sync_api import Page, expect

from holdfast.web import WebSettings, hash_password


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A shop with two people who may log in."""
    users: Path = tmp_path_factory.mktemp("users") / "users"
    users.write_text(
        f"ann:operator:{hash_password('correct horse')}\nvic:viewer:{hash_password('battery staple')}\n", "utf-8"
    )
    made = Served(shop(), worker=False, users=users, settings=WebSettings())
    made.do(made.app.registry.tasks["send"].options(job_id="one", delay=3600).enqueue("ann"))
    yield made
    made.close()


def log_in(page: Page, name: str, password: str) -> None:
    """Fill in the form."""
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def test_a_stranger_is_asked_who_they_are_and_returns_to_the_page(
    page: Page, served: Served, complaints: Complaints
) -> None:
    page.goto(served.url("/job?queue=mail&id=one"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    log_in(page, "ann", "wrong password")
    expect(page.get_by_role("alert")).to_contain_text("That is not right")
    log_in(page, "ann", "correct horse")
    expect(page.get_by_role("heading", level=1)).to_have_text("one")
    expect(page.locator(".side-foot")).to_contain_text("ann · operator")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    complaints.expected = True


def test_a_viewer_sees_all_and_is_offered_no_change(page: Page, served: Served) -> None:
    page.goto(served.url("/login"))
    log_in(page, "vic", "battery staple")
    for path in ("/job?queue=mail&id=one", "/jobs", "/queue?name=mail", "/schedules", "/workers", "/failures"):
        page.goto(served.url(path))
        expect(page.locator("#live")).to_have_text("live")
        assert page.locator('main form[method="post"]').count() == 0
    page.locator("#theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_form_without_our_token_changes_nothing(page: Page, served: Served, complaints: Complaints) -> None:
    page.goto(served.url("/login"))
    log_in(page, "ann", "correct horse")
    page.goto(served.url("/queues"))
    page.get_by_role("row", name="mail").get_by_role("button", name="Pause").evaluate(
        "button => { button.form.csrf.value = 'forged'; button.click(); }"
    )
    expect(page.locator("main")).to_contain_text("load it again")
    info = served.do(served.app.queue("mail").info())
    assert info is not None
    assert not info.settings.paused
    complaints.expected = True


def test_a_login_that_is_over_is_told_of_on_an_open_page(page: Page, served: Served, complaints: Complaints) -> None:
    page.goto(served.url("/login"))
    log_in(page, "ann", "correct horse")
    page.goto(served.url("/jobs"))
    expect(page.locator("#live")).to_have_text("live")
    page.context.clear_cookies()
    served.do(served.app.registry.tasks["send"].enqueue("news"))
    expect(page.locator("#away")).to_contain_text("The login is over")
    complaints.expected = True
