"""The app of the deployment guide: its store comes from the environment, everything else is in the code."""

from __future__ import annotations

import os

from holdfast import Cron, Holdfast, Retry

app = Holdfast(os.environ.get("SHOP_STORE", "sqlite:///shop.db"))
app.queue("mail", concurrency=50)


@app.task(queue="mail", retry=Retry(failures=5), timeout=30)
async def send(to: str) -> str:
    """Send one mail."""
    return f"sent to {to}"


@app.task(queue="reports", timeout=600)
def report(day: str) -> str:
    """Write the report of a day."""
    return f"report of {day}"


app.schedule("nightly", Cron("30 3 * * *"), report.args("yesterday"))
