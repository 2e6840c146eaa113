"""One browser for each module, and for each test a page whose console must stay empty."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser_case import Complaints, Served
from browser_shop import shop
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip

PATIENCE_MS = 40_000
"""A page is read again less often where that takes the server long, as on a busy machine."""
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, which `tests/debian.py` installs. It ends with its module, and its event loop with it."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A shop that is at work."""
    made = Served(shop())
    yield made
    made.close()


@pytest.fixture
def complaints() -> Complaints:
    """What the browser said in its console."""
    return Complaints()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser without cookies."""
    made = browser.new_context(viewport={"width": 1280, "height": 900})
    made.set_default_timeout(PATIENCE_MS)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext, complaints: Complaints) -> Iterator[Page]:
    """An empty page. At the end, its console has no error and no violation of the content policy."""
    made = context.new_page()

    def hear(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(f"{message.type}: {message.text}")

    made.on("console", hear)
    made.on("pageerror", lambda error: complaints.append(str(error)))
    yield made
    assert complaints.expected or complaints == []
