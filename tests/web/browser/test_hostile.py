"""Job data is hostile: whatever it holds is shown as text, and what is large is shown in part."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from browser_case import Served
from playwright.sync_api import Page, expect
from support import until

SCRIPT = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
EVIL = f"{SCRIPT}\x1b[31m\u202egnp.exe\u2066\x9b2J'\"&{{{{7*7}}}}"
IDS = [EVIL, "..", ".", "a/b/../c", "ünï 😀 codé", "?x=1&y=2#z", "%2e%2e%2f", " ", "<b>", "__proto__"]


@pytest.mark.parametrize("id", IDS)
def test_an_id_is_shown_as_text_and_leads_to_its_job(page: Page, served: Served, id: str) -> None:
    charge = served.app.registry.tasks["charge"]
    served.do(charge.options(job_id=id, tags=[EVIL[:100]], headers={"note": EVIL}).enqueue(EVIL, card="expired"))
    until(lambda: served.do(served.app.status("payments", id)).state == "failed", "it fails")
    page.goto(served.url("/jobs?" + urlencode({"queue": "payments", "state": "failed"})))
    page.locator("tr[data-row]").first.get_by_role("link").first.click()
    expect(page.locator(".crumbs")).to_contain_text("payments")
    expect(page.locator("#error")).to_contain_text("document.title='owned'")
    expect(page.locator("#error")).to_contain_text("\\u202egnp.exe\\u2066\\x9b2J")
    assert page.title().split(" ")[0] != "owned"
    assert "\u202e" not in page.content()
    assert "\x1b" not in page.content()
    assert page.locator("main script, main img").count() == 0
    for path in ("/failures", "/events", "/"):
        page.goto(served.url(path))
        assert page.locator("main script, main img").count() == 0
        assert "\u202e" not in page.content()
        assert page.title().endswith("Holdfast")


def test_names_of_queues_tasks_keys_and_workers_are_text(page: Page, served: Served) -> None:
    name = f"<i>q</i>\u202e{SCRIPT}"[:200]
    served.do(served.app.queue(name).enqueue({"a": EVIL}, key=EVIL, job_id="x"))
    for path in ("/", "/queues", "/queue?" + urlencode({"name": name}), "/jobs?" + urlencode({"queue": name})):
        page.goto(served.url(path))
        expect(page.locator("main")).to_contain_text("<i>q</i>\\u202e")
        assert page.locator("main i:not([class]), main script").count() == 0
    page.goto(served.url("/job?" + urlencode({"queue": name, "id": "x"})))
    expect(page.locator("pre").first).to_contain_text("document.title='owned'")


def test_ten_megabytes_are_shown_in_part_and_downloaded_whole(page: Page, served: Served) -> None:
    served.app.queue("big", max_payload=20_000_000)
    served.do(served.app.queue("big").enqueue({"text": "x" * 10_000_000, "token": "secret"}, job_id="big"))
    page.goto(served.url("/job?queue=big&id=big"))
    expect(page.locator("main")).to_contain_text("10.0 MB")
    expect(page.locator("main")).to_contain_text("download all of it")
    assert len(page.content()) < 300_000
    with page.expect_download() as download:
        page.get_by_role("link", name="download", exact=True).first.click()
    text = download.value.path().read_text()
    assert len(text) > 10_000_000
    assert "secret" not in text
    assert "[redacted]" in text


def test_what_no_codec_can_read_is_shown_as_bytes(page: Page, served: Served) -> None:
    from holdfast.store.contract import NewJob

    served.do(served.app.store.enqueue("raw", [NewJob(id="raw", task="unknown", payload=b"\xff\x00<b>")]))
    page.goto(served.url("/job?queue=raw&id=raw"))
    expect(page.locator("pre").first).to_contain_text("<b>")
