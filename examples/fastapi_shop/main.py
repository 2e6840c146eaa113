"""A shop with FastAPI: orders are taken at once, billed by a worker, and watched on the dashboard.

    uvicorn main:api --reload             # SHOP_WORKER=1 runs the jobs in the same process
    holdfast worker jobs:jobs             # in production, workers are processes of their own

Orders at http://127.0.0.1:8000/docs, the dashboard at http://127.0.0.1:8000/jobs/.
"""

import os
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Response
from jobs import Invoice, Order, bill, confirm, jobs

from holdfast import Holdfast, JobFailed, JobMissing, JobTimeout
from holdfast.contrib.fastapi import HoldfastDep, lifespan, mount_dashboard

api = FastAPI(title="Shop", lifespan=lifespan(jobs, worker=os.environ.get("SHOP_WORKER") == "1"))
mount_dashboard(api, jobs, "/jobs")


@api.post("/orders", status_code=202)
async def take(order: Order, response: Response) -> dict[str, str]:
    """Answer at once. The number of the order is the job's id: a second request makes no second bill."""
    handle = await bill.options(job_id=str(order.number)).enqueue(order)
    await confirm.options(job_id=str(order.number)).enqueue(order)
    response.headers["location"] = f"/orders/{order.number}"
    return {"bill": handle.id, "status": handle.status}


@api.get("/orders/{number}")
async def look(number: int) -> dict[str, str | int]:
    try:
        record = await bill.status(str(number))
    except JobMissing as error:
        raise HTTPException(404, str(error)) from error
    return {"state": record.state, "attempts": record.counters.attempts}


@api.post("/quotes")
async def quote(order: Order) -> Invoice:
    """Wait for the worker's answer, within the request."""
    try:
        return await bill.call_within(10, order)
    except JobTimeout as error:
        raise HTTPException(504, "no worker answered within ten seconds") from error
    except JobFailed as error:
        raise HTTPException(422, str(error)) from error


async def waiting_orders(jobs: HoldfastDep) -> int:
    """Count the orders that wait: a dependency of your own, on top of the app."""
    found = await jobs.count(queue="billing", state="waiting")
    return found.number


@api.get("/backlog")
async def backlog(jobs: HoldfastDep, orders: Annotated[int, Depends(waiting_orders)]) -> dict[str, object]:
    assert isinstance(jobs, Holdfast)
    return {"orders": orders, "queues": [each.name for each in await jobs.queues()]}
