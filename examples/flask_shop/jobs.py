"""The jobs of the shop. Handlers run in the context of the Flask application, as views do."""

import os

from flask import current_app

from holdfast import Holdfast, Retry
from holdfast.contrib.flask import HoldfastFlask

jobs = Holdfast(os.environ.get("SHOP_URL", "sqlite:///shop.db"))
holdfast = HoldfastFlask(jobs, path="wsgi:jobs")


@jobs.task(queue="mail", retry=Retry(failures=10))
def confirm(number: int, to: str) -> str:
    sender = current_app.config["SENDER"]
    current_app.logger.info("confirming %s", number)
    return f"{sender} -> {to}: order {number} is on its way"


@jobs.task(queue="prices")
async def quote(item: str, count: int) -> int:
    return int(current_app.config["CENTS"]) * count * len(item)
