"""Every page, of a store in which every name and text is hostile: markup is text, and nothing steers or turns it."""

from __future__ import annotations

import unicodedata
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

import httpx
from support import eventually

from holdfast import Cron, Holdfast, Job, Permanent
from holdfast.store.contract import Session
from holdfast.web import create_app
from holdfast.web.dashboard import PAGES

MARK = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}"
TURNS = "\u061c\u200e\u200f\u202a\u202e\u2066\u2069"
EVIL = f"{MARK}\x1b[31m\x9b2J\x07\r\u2028{TURNS}"
NAME = EVIL.replace("/", "\\")
"""For flows, whose names have no slash."""
QUEUE = f"q{EVIL}"
ID = f"../{EVIL}/%2e?x#y"


async def fill(app: Holdfast) -> None:
    """A job that failed, one that runs, a flow, a chain, a schedule, a worker, limits and actions, all hostile."""

    @app.task(name=f"fails{EVIL}", queue=QUEUE)
    async def fails(job: Job, what: str) -> None:
        await job.progress(0.5, EVIL)
        await job.save({EVIL: EVIL})
        raise type(EVIL, (Permanent,), {})(EVIL)

    @app.task(name=f"runs{EVIL}", queue=QUEUE)
    async def runs(job: Job, what: str) -> None:
        await job.progress(0.5, EVIL)
        await job.signal.wait()

    @app.task(name=f"goes on{EVIL}", queue=QUEUE)
    async def goes_on(job: Job, what: str) -> object:
        return job.continue_with(runs, EVIL)

    app.schedule(EVIL, Cron("0 3 * * *"), runs.args(EVIL))
    hostile: dict[str, Any] = {"key": EVIL, "tags": [EVIL], "headers": {EVIL: EVIL}}
    with app.acting_as(EVIL):
        await fails.options(job_id=ID, **hostile).enqueue(EVIL)
        await goes_on.options(job_id=f"{ID}2", **hostile).enqueue(EVIL)
        await runs.options(job_id=f"{ID}3", delay=3600, **hostile).enqueue(EVIL)
        await app.cancel(QUEUE, f"{ID}3")
        await app.queue(QUEUE).set(concurrency=3)
        await app.queue(QUEUE).limit_key(EVIL, 3)
        flow = app.flow(NAME)
        flow.add(goes_on.args(EVIL), after=flow.map(runs, [EVIL, EVIL], name=NAME), name=f"{NAME}2")
        await flow.start()
        await app.schedules.declare([QUEUE])
    await app.store.register(Session(id=EVIL, name=EVIL, host=EVIL, pid=1, queues=(QUEUE,)))


def addresses(signature: str) -> list[str]:
    """Return an address of every page, with hostile parameters where it takes some."""
    job = {"queue": QUEUE, "id": ID}
    shown: dict[str, list[dict[str, str]]] = {
        "/queue": [{"name": QUEUE}, {"name": EVIL}],
        "/jobs": [
            {}, {"queue": QUEUE, "key": EVIL, "tag": EVIL}, {"signature": signature}, {"id": EVIL, "task": EVIL},
            {EVIL: ""},
        ],
        "/job": [job, {**job, "id": f"{ID}2"}, {**job, "id": EVIL}, {**job, "run": EVIL}],
        "/graph": [{**job, "id": f"{ID}2"}, {**job, "id": f"{NAME}/{NAME}2"}],
        "/data": [{**job, "part": EVIL}],
        "/events": [{}, {"queue": QUEUE, "transition": EVIL}],
        "/operation": [{"key": EVIL}],
        "/lake": [{"days": EVIL}],
    }  # fmt: skip
    found = []
    for path in PAGES:
        if path not in ("/theme", "/live-updates"):
            found += [f"{path}?{urlencode(each)}" if each else path for each in shown.get(path, [{}])]
    return found


def unsafe(text: str) -> set[str]:
    """Return the characters that nobody should be shown as they are."""
    found = {each for each in text if unicodedata.category(each) in ("Cc", "Zl", "Zp") or each in TURNS}
    return found - {"\n", "\t"}


async def test_whatever_jobs_carry_is_text_on_every_page() -> None:
    app = Holdfast("memory://")
    web = create_app(app)
    async with web.router.lifespan_context(web):
        await fill(app)
        async with app.worker(slots=20, drain=0.1, grace=0.1, name=f"w{EVIL}"):
            await eventually(lambda: _has(app, "failed"))
            await eventually(lambda: _has(app, "active"))
            (failed,) = (await app.jobs(state="failed")).jobs
            assert failed.error is not None
            transport = httpx.ASGITransport(web, raise_app_exceptions=False)
            headers = {"accept": "text/html"}
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
                for address in addresses(failed.error.signature):
                    check(address, await client.get(address))


async def _has(app: Holdfast, state: str) -> bool:
    return bool((await app.jobs(state=state)).jobs)


class Markup(HTMLParser):
    """Notes what our templates never write."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name for name, _ in attrs}
        if tag in ("img", "iframe", "object") or (tag == "script" and "src" not in names):
            self.wrong.append(tag)
        self.wrong += [name for name in names if name.startswith("on") or name == "style"]


def check(address: str, answer: httpx.Response) -> None:
    assert answer.status_code in (200, 400, 404), (address, answer.text)
    assert "text/html" in answer.headers["content-type"], address
    markup = Markup()
    markup.feed(answer.text)
    assert not markup.wrong, address
    assert unsafe(answer.text) == set(), address
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert "unsafe-inline" not in answer.headers["content-security-policy"]
