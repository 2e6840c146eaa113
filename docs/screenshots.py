"""Make the screenshots of the dashboard: `python docs/screenshots.py [NAME ...]`, of all screens or of some.

It starts a shop on a store in memory, with workers and customers, serves its dashboard, and looks at each screen in
Debian's Chromium (`python tests/debian.py` installs it), light and dark. Pillow makes the files small.
"""

from __future__ import annotations

import asyncio
import io
import linecache
import random
import sys
from pathlib import Path
from types import FunctionType
from typing import TypeVar, cast

import uvicorn
from PIL import Image
from playwright.async_api import Browser, async_playwright

from holdfast import Cron, Every, Holdfast, Job, Permanent, Rate, Retry
from holdfast.core.limit import Retention
from holdfast.web import create_app

IMAGES = Path(__file__).parent / "images"
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
COLOURS = 240
"""So many colours has a picture: enough for flat ones."""
WARM_UP = 210.0
"""Seconds for which the shop is at work before the first picture."""
SCREENS = {
    "overview": "/",
    "queues": "/queues",
    "queue": "/queue?name=photos",
    "jobs": "/jobs?state=failed",
    "job": "/job?queue=payments&id=charge-flaky",
    "chains": "/chains",
    "flow": "/graph?queue=orders&id=import-7/fetch",
    "failures": "/failures",
    "schedules": "/schedules",
    "workers": "/workers",
    "events": "/events",
}
app = Holdfast("memory://")
app.queue("photos", concurrency=6, key_concurrency=2, retention=Retention(completed=600))
app.queue("mail", rate=Rate(40))
app.queue("orders", rate=Rate(80), retention=Retention(completed=86400))


class CardExpired(Permanent):
    """Trying again would not help."""


class BankDown(ConnectionError):
    """Trying again may help."""


CardExpired.__module__ = BankDown.__module__ = "shop"
linecache.cache["shop.py"] = (1, None, linecache.getlines(__file__), "shop.py")
Function = TypeVar("Function", bound=FunctionType)


def of_the_shop(function: Function) -> Function:
    """Let tracebacks name a file of the shop, and no folder of the machine that makes the pictures."""
    function.__code__ = function.__code__.replace(co_filename="shop.py")
    return function


@app.task(queue="payments", retry=Retry(failures=3, initial=1.0), timeout=10)
@of_the_shop
async def charge_card(job: Job, order: str, cents: int, card: str = "visa", token: str = "") -> dict[str, object]:
    await asyncio.sleep(random.uniform(0.02, 0.12))
    if card == "expired":
        raise CardExpired(f"the card for {order} has expired")
    if card == "flaky":
        raise BankDown("the bank did not answer within 5 s")
    return {"order": order, "cents": cents, "code": f"ok-{cents:06}"}


@app.task(queue="mail", retry=Retry(failures=5, initial=0.5))
@of_the_shop
async def send_receipt(to: str) -> str:
    await asyncio.sleep(0.03)
    if random.random() < 0.06:
        raise BankDown(f"no answer for {to}")
    return "sent"


@app.task(queue="photos", timeout=60)
async def resize_photo(job: Job, name: str) -> int:
    for band in range(1, 9):
        await asyncio.sleep(random.uniform(0.1, 0.5))
        await job.progress(band / 8, f"band {band} of 8")
    return 8


@app.task(queue="orders")
async def import_line(line: int) -> int:
    await asyncio.sleep(random.uniform(0.005, 0.06))
    return line


@app.task(queue="orders")
async def check_stock(job: Job, order: str) -> object:
    await asyncio.sleep(0.05)
    return job.continue_with(pack, order)


@app.task(queue="orders")
async def pack(job: Job, order: str) -> object:
    await asyncio.sleep(0.3)
    return job.continue_with(ship, order)


@app.task(queue="orders")
async def ship(order: str) -> str:
    await asyncio.sleep(0.2)
    return f"{order} is on its way"


@app.task(queue="approvals")
async def approve(order: str) -> bool:
    return True


@app.task(queue="orders")
async def book(order: str) -> str:
    return order


@app.task(queue="reports")
async def nightly_report(day: str) -> str:
    return day


app.schedule("nightly-report", Cron("0 3 * * *", tz="Europe/Berlin"), nightly_report.args("today"), overlap="skip")
app.schedule("stock-check", Every(20), import_line.args(0))
app.schedule("weekly-invoices", Cron("30 6 * * MON"), nightly_report.args("week"))
TENANTS = ("acme", "globex", "initech", "umbrella")


async def open_shop() -> None:
    """Enqueue what is there from the beginning."""
    flow = app.flow("import-7")
    fetch = flow.add(import_line.args(0), name="fetch")
    lines = flow.map(import_line, range(994), after=fetch, name="line")
    deal = flow.add(approve.args("import-7"), after=lines, name="approve")
    stock = flow.map(check_stock, ["a", "b"], after=fetch, name="stock")
    flow.add(book.args("import-7"), after=[deal, stock], name="book")
    await flow.start()
    await charge_card.options(
        job_id="charge-flaky", tags=["vip", "retry-by-hand"], headers={"request": "r-4711"}, key="acme"
    ).enqueue("order-1042", 4200, card="flaky", token="tok_live_1")
    for number in range(40):
        await send_receipt.options(job_id=f"reminder-{number}", delay=3600 + 60 * number).enqueue("ann@example.com")
    await app.queue("photos").set(concurrency=4)
    await app.queue("exports").enqueue({"month": "2026-10"})
    await app.queue("exports").pause()


async def customers() -> None:
    """Customers come and go for ever, in waves."""
    number = 0
    while True:
        number += 1
        wave = 1.5 + 1.2 * ((number // 12) % 3)
        for _ in range(int(3 * wave)):
            order = f"order-{random.randrange(10_000)}"
            card = random.choices(("visa", "expired", "flaky"), (93, 4, 3))[0]
            await charge_card.enqueue(order, random.randrange(500, 90_000), card=card, token="tok_live_2")
            await send_receipt.enqueue(f"customer-{random.randrange(900)}@example.com")
        await import_line.enqueue_many(import_line.args(line) for line in range(int(random.uniform(4, 12) * wave)))
        if number % 3 == 0:
            await resize_photo.options(key=random.choice(TENANTS)).enqueue(f"photo-{number}.jpg")
            await check_stock.options(job_id=f"parcel-{number}").enqueue(f"order-{number}")
        await asyncio.sleep(0.5)


async def picture(browser: Browser, address: str, name: str, scheme: str, width: int = 1280) -> None:
    """Write one screen to a file of few colours."""
    context = await browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]
    page = await context.new_page()
    await page.goto(address)
    await page.wait_for_selector('#live[data-live="on"]')
    await page.wait_for_timeout(1200)
    high = min(1500, await page.evaluate("document.documentElement.scrollHeight"))
    await page.set_viewport_size({"width": width, "height": high})
    data = await page.screenshot()
    await context.close()
    IMAGES.mkdir(exist_ok=True)
    made = few_colours(Image.open(io.BytesIO(data)).convert("RGB"))
    made.save(IMAGES / f"{name}-{scheme}.png", optimize=True)


def few_colours(image: Image.Image) -> Image.Image:
    """Return a picture with its most frequent colours as they are, and the others as the nearest of these."""
    found = sorted(image.getcolors(1 << 24) or [], reverse=True)[:COLOURS]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in found for part in cast(tuple[int, int, int], colour)])
    return image.quantize(palette=palette, dither=Image.Dither.NONE)


async def main(wanted: list[str]) -> None:
    random.seed(7)
    async with app:
        web = create_app(app)
        server = uvicorn.Server(uvicorn.Config(web, port=0, log_level="error", timeout_graceful_shutdown=1))
        async with asyncio.TaskGroup() as group:
            queues = ["payments", "mail", "photos", "orders", "reports"]
            workers = [app.worker(queues, slots=10, name=f"worker-{number}") for number in (1, 2)]
            working = [group.create_task(worker.run()) for worker in workers]
            serving = group.create_task(server.serve())
            await open_shop()
            buying = group.create_task(customers())
            await asyncio.sleep(WARM_UP)
            address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(executable_path="/usr/bin/chromium", args=list(FLAGS))
                for name in wanted or SCREENS:
                    for scheme in ("light", "dark"):
                        await picture(browser, address + SCREENS[name], name, scheme)
                if not wanted:
                    await picture(browser, address, "telephone", "light", 375)
                await browser.close()
            buying.cancel()
            server.should_exit = True
            await serving
            for worker, task in zip(workers, working, strict=True):
                worker.stop()
                await task


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
