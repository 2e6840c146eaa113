"""The pages on real stores: every screen, what matters most to do, a real worker, and a server that is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import servers
from browser_case import Complaints, Served
from browser_shop import shop
from places import place
from playwright.sync_api import Page, expect
from support import PATIENCE, until
from test_actions import confirm, enqueue, reaches, said, state
from test_pages import SCREENS, fill

Server = servers.RedisServer | servers.PostgresServer
STORES = ["sqlite", "postgres", "redis"]


@pytest.fixture(scope="module", params=STORES)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an empty store of each kind."""
    with place(request.param, tmp_path_factory.mktemp("store")) as found:
        yield found


@pytest.fixture(scope="module")
def served(url: str) -> Iterator[Served]:
    """A shop with a job of every kind."""
    made = Served(shop(url))
    made.do(fill(made.app))
    yield made
    made.close()


def test_every_screen_shows_what_it_is_for(page: Page, served: Served) -> None:
    for path, (heading, texts) in SCREENS.items():
        page.goto(served.url(path))
        expect(page.get_by_role("heading", level=1)).to_contain_text(heading)
        for text in texts:
            expect(page.locator("main")).to_contain_text(text)
    expect(page.locator(".side-foot")).to_contain_text(served.app.store.url.partition(":")[0])


def test_jobs_are_steered(page: Page, served: Served) -> None:
    enqueue(served, "send", "soon", "ann", delay=3600)
    page.goto(served.url("/job?queue=mail&id=soon"))
    page.get_by_role("button", name="Run now").click()
    said(page, "soon may run now")
    reaches(served, "mail", "soon", "completed")
    enqueue(served, "resize", "long", "a.jpg")
    reaches(served, "photos", "long", "active")
    page.goto(served.url("/job?queue=photos&id=long"))
    confirm(page, "Cancel")
    said(page, "long was told to stop")
    until(lambda: state(served, "photos", "long").finished, "long ends")
    enqueue(served, "approve", "deal-2", "order-1", delay=3600)
    page.goto(served.url("/graph?queue=approvals&id=deal-2"))
    page.locator("summary", has_text="Approve").click()
    page.get_by_label("Result, as JSON").fill('{"by": "ann"}')
    page.get_by_role("button", name="Complete").click()
    said(page, "deal-2 is completed")


def test_queues_and_schedules_are_steered(page: Page, served: Served) -> None:
    page.goto(served.url("/queue?name=mail"))
    page.get_by_role("button", name="Pause").click()
    said(page, "Queue mail is paused")
    page.get_by_label("Concurrency", exact=True).fill("2")
    row = page.get_by_role("row", name="Concurrency").first
    row.get_by_role("button", name="Set", exact=True).click()
    said(page, "Concurrency of mail is 2")
    expect(row).to_contain_text("operator")
    page.get_by_role("button", name="Resume").click()
    said(page, "Queue mail is resumed")
    page.goto(served.url("/schedules"))
    page.get_by_role("row", name="hourly").get_by_role("button", name="Trigger").click()
    said(page, "hourly was triggered")
    expect(page.get_by_role("row", name="hourly")).to_contain_text("completed")


def test_many_are_steered_by_filter_and_pages_follow(page: Page, served: Served) -> None:
    page.goto(served.url("/jobs?id=by-filter-&state=scheduled"))
    expect(page.locator("#live")).to_have_text("live")
    for number in range(60):
        enqueue(served, "send", f"by-filter-{number}", "ann", delay=3600)
    expect(page.locator("tr[data-row]")).to_have_count(50)
    page.reload()
    page.get_by_label("all that match").check()
    page.get_by_role("button", name="Cancel all").click()
    expect(page.locator("main")).to_contain_text("60 jobs match")
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.locator("#operation")).to_contain_text("60 of 60 done")
    assert served.do(served.app.count(id_prefix="by-filter-", state="cancelled")).number == 60
    events = served.do(served.app.store.events("end-1000")).events
    assert {each.actor for each in events if each.id == "by-filter-7" and each.transition == "cancel"} == {"anonymous"}


def test_ten_megabytes_are_shown_in_part(page: Page, served: Served) -> None:
    served.app.queue("big", max_payload=20_000_000)
    served.do(served.app.queue("big").enqueue({"text": "x" * 10_000_000}, job_id="big"))
    page.goto(served.url("/job?queue=big&id=big"))
    expect(page.locator("main")).to_contain_text("download all of it")
    assert len(page.content()) < 300_000
    with page.expect_download() as download:
        page.get_by_role("link", name="download", exact=True).first.click()
    assert download.value.path().stat().st_size > 10_000_000


# --- a real worker


TASKS = """
import asyncio, os
from holdfast import Holdfast, Job

app = Holdfast(os.environ["STORE"])


@app.task(queue="errands")
async def run(job: Job, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"
"""


@pytest.fixture
def worker(url: str, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """`holdfast worker` in a process of its own, which hears of commands soon."""
    (tmp_path / "errands.py").write_text(TASKS)
    words = ["worker", "errands:app", "--name", "errand-boy", "--lease", "2", "--heartbeat", "0.2", "--drain", "30"]
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *words], cwd=tmp_path, env={**os.environ, "STORE": url},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert "errand-boy serves errands" in process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def press(page: Page, served: Served, worker: subprocess.Popen[str], label: str) -> None:
    """Have the worker end, by the button of its card. What the page knows is some moments old: others had that name."""
    page.goto(served.url("/workers"))
    card = page.get_by_role("region", name="Worker errand-boy").filter(has_text=f"process {worker.pid} ")
    card.locator("summary", has_text=label).click()
    card.locator("details[open]").get_by_role("button", name=label, exact=True).click()
    said(page, "it hears of it within a heartbeat")


def running(served: Served, id: str, seconds: float) -> None:
    """The worker runs a job that takes so long."""
    from holdfast.store.contract import NewJob

    payload = f'{{"seconds": {seconds}}}'.encode()
    served.do(served.app.store.enqueue("errands", [NewJob(id=id, task="run", payload=payload)]))
    reaches(served, "errands", id, "active")


def test_a_worker_that_is_drained_finishes_what_it_runs(
    page: Page, served: Served, worker: subprocess.Popen[str]
) -> None:
    running(served, "short", 1.0)
    press(page, served, worker, "Drain")
    assert worker.wait(PATIENCE) == 0
    assert state(served, "errands", "short") == "completed"
    expect(page.locator("main")).not_to_contain_text("errand-boy is", timeout=10_000)


def test_a_worker_that_is_stopped_hands_back_what_it_runs(
    page: Page, served: Served, worker: subprocess.Popen[str]
) -> None:
    running(served, "endless", 600)
    press(page, served, worker, "Stop")
    assert worker.wait(PATIENCE) == 0
    assert state(served, "errands", "endless") == "waiting"
    assert served.do(served.app.status("errands", "endless")).counters.releases == 1


def test_a_worker_that_was_killed_is_told_of(page: Page, served: Served, worker: subprocess.Popen[str]) -> None:
    running(served, "widowed", 600)
    page.goto(served.url("/"))
    worker.send_signal(signal.SIGKILL)
    expect(page.locator("#attention")).to_contain_text("worker errand-boy was last heard", timeout=60_000)
    expect(page.locator("#attention")).to_contain_text("; it held ")


# --- a server that goes away


@pytest.fixture(params=["redis", "postgres"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of the test's own."""
    made: Server
    if request.param == "redis":
        binary = servers.valkey_binary() or servers.redis_binary()
        assert binary is not None
        made = servers.RedisServer(binary, "--appendonly", "yes")
    else:
        made = servers.PostgresServer()
        made.start()
    yield made
    made.close()


def test_a_store_whose_server_dies_is_told_of_until_it_is_back(
    page: Page, server: Server, complaints: Complaints
) -> None:
    with closing(Served(shop(url_of(server)), worker=False)) as made:
        comes_back(page, made, server)
    complaints.expected = True


def url_of(server: Server) -> str:
    return server.url if isinstance(server, servers.RedisServer) else server.url()


def comes_back(page: Page, made: Served, server: Server) -> None:
    enqueue(made, "send", "before", "ann")
    page.goto(made.url("/jobs"))
    expect(page.locator("#list")).to_contain_text("before")
    server.stop()
    expect(page.locator("#away")).to_contain_text("The store cannot be reached", timeout=20_000)
    page.goto(made.url("/queues"))
    expect(page.locator("main")).to_contain_text(re.compile("cannot be reached|connection was lost"))
    server.start()
    expect(page.get_by_role("heading", level=1)).to_have_text("Queues", timeout=30_000)
    page.goto(made.url("/jobs"))
    enqueue(made, "send", "after", "ann")
    expect(page.locator("#list")).to_contain_text("after")
    expect(page.locator("#live")).to_have_text("live", timeout=20_000)
