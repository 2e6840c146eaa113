"""The jobs of the shop. A worker needs nothing of FastAPI: `holdfast worker jobs:jobs`."""

import os
from dataclasses import dataclass

from holdfast import Holdfast, Job, Retry

jobs = Holdfast(os.environ.get("SHOP_URL", "sqlite:///shop.db"))


@dataclass
class Order:
    number: int
    item: str
    to: str


@dataclass
class Invoice:
    number: int
    cents: int


@jobs.task(queue="billing", retry=Retry(failures=5), timeout=30)
async def bill(job: Job, order: Order) -> Invoice:
    await job.progress(0.5, "counting")
    return Invoice(order.number, 100 * len(order.item))


@jobs.task(queue="mail", retry=Retry(failures=10))
def confirm(order: Order) -> str:
    return f"{order.to}: your {order.item} is on its way"
