"""The page of the lake, with a lake that the command has made of what a worker did."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_case import Served
from browser_shop import shop
from lean_spark import lean_environment
from playwright.sync_api import Page, expect
from support import until
from test_actions import enqueue, reaches

from holdfast.web.settings import WebSettings

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A shop that has completed and failed some jobs, and has a lake of them."""
    folder: Path = tmp_path_factory.mktemp("lake")
    url = f"sqlite:///{folder}/jobs.db"
    made = Served(shop(url), settings=WebSettings(lake=folder / "lake"))
    for number in range(5):
        enqueue(made, "send", f"sent-{number}", "ann", key="acme")
    enqueue(made, "charge", "bad", "order-9", "expired")
    reaches(made, "payments", "bad", "failed")
    until(lambda: made.do(made.app.count(queue="mail", state="completed")).number >= 5, "the mail is sent")
    run = [sys.executable, "-m", "holdfast", "lake", "run", "--url", url, "--path", str(folder / "lake"), "--once"]
    done = subprocess.run(run, capture_output=True, text=True, check=False, env=lean_environment())
    assert done.returncode == 0, done.stdout + done.stderr
    yield made
    made.close()


def test_the_lake_is_shown_with_its_charts_and_tables(page: Page, served: Served) -> None:
    page.goto(served.url("/lake"))
    main = page.locator("main")
    for text in ("completed", "failed for good", "Queues", "mail: jobs", "payments", "CardExpired", "acme", "worker-1"):
        expect(main).to_contain_text(text)
    assert page.locator("main .plot svg").count() >= 4
    page.goto(served.url("/lake?days=0"))
    expect(main).to_contain_text("mail: waits")
    page.set_viewport_size({"width": 375, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 375


def test_a_lake_that_was_read_to_the_end_is_not_behind(page: Page, served: Served) -> None:
    page.goto(served.url("/"))
    expect(page.locator("main")).not_to_contain_text("behind the log")
    measured = served.do(served.app.measure()).log
    assert [name.partition("-")[0] for name in measured.readers] == ["lake"]
    assert set(measured.readers.values()) == set(measured.lag_ms.values()) == {0}
