"""What a type checker must refuse: each line with `# wrong:` has an error that contains what follows."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast import Continued, Depends, Every, Holdfast, Job, Retry, WorkerProcesses

app = Holdfast("memory://")


@app.task()
async def send(to: str, template: str = "welcome") -> int:
    return 1


@app.task()
def resize(path: str, *, width: int) -> list[int]:
    return [width]


@app.task()
async def with_job(job: Job, to: str) -> int:
    return job.attempt


@app.task
async def bare(to: str) -> int:
    return 1


@app.resource
def numbers() -> Iterator[list[int]]:
    yield [1]


@app.task
async def given(to: str, db: str = Depends(numbers)) -> int:  # wrong: default has type "list[int]"
    return 1


@app.task()
async def wrong_result(job: Job) -> Continued[str]:
    return job.continue_with(send, "ann")  # wrong: expected "ChainTask[[str], str]"


@app.task()
async def wrong_arguments(job: Job) -> Continued[int]:
    return job.continue_with(send, 5)  # wrong: incompatible type "int"; expected "str"


@app.task()
async def missing_arguments(job: Job) -> Continued[int]:
    return job.continue_with(send)  # wrong: Missing positional argument "to"


@app.task()
async def not_said(job: Job) -> int:
    return job.continue_with(send, "ann")  # wrong: got "Continued[int]", expected "int"


@app.task()
async def right_chain(job: Job) -> Continued[int]:
    return job.continue_with(send, "ann")


async def main() -> None:
    number: str = await right_chain.call()  # wrong: expression has type "int", variable has type "str"
    await right_chain.complete("x", "done")  # wrong: incompatible type "str"; expected "int"
    send.options(blockers=["j"])  # wrong: List item 0 has incompatible type "str"
    send.options(on_blocker_failed="wait")  # wrong: incompatible type "Literal['wait']"
    app.flow("f").map(send, [1])  # wrong: incompatible type
    app.flow("f").add(send)  # wrong: incompatible type
    print(number)
    await bare.enqueue(5)  # wrong: incompatible type "int"; expected "str"
    await bare.call()  # wrong: Missing positional argument "to"
    await given.enqueue()  # wrong: Missing positional argument "to"
    await given.enqueue("ann", 5)  # wrong: incompatible type "int"; expected "str"
    app.resource(scope="thread")  # wrong: No overload variant
    Depends(given)  # wrong: No overload variant
    with app.override(numbers, "one"):  # wrong: Cannot infer value of type parameter "T"
        pass
    await send.enqueue(5)  # wrong: incompatible type "int"; expected "str"
    await send.enqueue()  # wrong: Missing positional argument "to"
    await send.enqueue("ann", tmplate="x")  # wrong: Unexpected keyword argument "tmplate"
    await send.enqueue("ann", "x", "y")  # wrong: Too many arguments
    await send.call(5)  # wrong: incompatible type "int"; expected "str"
    await send.call_within(5)  # wrong: Missing positional argument "to"
    await send.call_within("5", "ann")  # wrong: incompatible type "str"; expected "float | timedelta
    await send.options(job_id="x").call(5)  # wrong: incompatible type "int"; expected "str"
    send.args(5)  # wrong: incompatible type "int"; expected "str"
    text: str = await send.call("ann")  # wrong: expression has type "int", variable has type "str"
    result: str = await (await send.enqueue("ann")).result()  # wrong: expression has type "int"
    await resize.enqueue("x.png", 5)  # wrong: Too many positional arguments
    await resize.enqueue("x.png")  # wrong: Missing named argument "width"
    await with_job.enqueue()  # wrong: Missing positional argument "to"
    await with_job.enqueue(None, "ann")  # wrong: Too many arguments
    await with_job.enqueue(7)  # wrong: incompatible type "int"; expected "str"
    send.options(prio=5)  # wrong: Unexpected keyword argument "prio"
    send.options(priority="high")  # wrong: incompatible type "str"; expected "int | None"
    send.options(on_conflict="replace")  # wrong: incompatible type "Literal['replace']"
    await send.cancel("x", running="maybe")  # wrong: incompatible type "Literal['maybe']"
    await send.enqueue_many(["ann"])  # wrong: incompatible type "str"; expected "Call[object]"
    app.task(retry=3)  # wrong: No overload variant
    app.schedule("s", "0 3 * * *", send.args("ann"))  # wrong: incompatible type "str"; expected "Cron | Every | At"
    app.schedule("s", Every(60), send)  # wrong: expected "Call[object]"
    app.schedule("s", Every(60), send.args("ann"), overlap="no")  # wrong: incompatible type "Literal['no']"
    app.task(executor="gpu")  # wrong: No overload variant
    app.queue("q", speed=3)  # wrong: No overload variant
    app.queue("q", timeout="soon")  # wrong: No overload variant
    orders = app.queue("orders", payload=int, result=str)
    await orders.enqueue("1")  # wrong: incompatible type "str"; expected "int"
    await orders.enqueue(1, prio=5)  # wrong: Unexpected keyword argument "prio"
    await orders.enqueue_many(["1"])  # wrong: incompatible type "str"; expected "int"
    wanted: int = await orders.call(1)  # wrong: expression has type "str", variable has type "int"
    await orders.complete("id", 5)  # wrong: incompatible type "int"; expected "str"
    orders.options(priority="high")  # wrong: incompatible type "str"; expected "int | None"
    app.worker(speed=3)  # wrong: Unexpected keyword argument "speed"
    app.worker(slots="many")  # wrong: incompatible type "str"; expected "int"
    app.worker(on_stuck="wait")  # wrong: incompatible type "Literal['wait']"
    app.worker(middleware=[send])  # wrong: incompatible type
    await orders.set(speed=3)  # wrong: Unexpected keyword argument "speed"
    await orders.set(concurrency="many")  # wrong: incompatible type "str"; expected "int | None"
    await orders.set(rate=5)  # wrong: incompatible type "int"; expected "Rate | None"
    await orders.adjust("send", retries=3)  # wrong: Unexpected keyword argument "retries"
    await send.adjust(failures="many")  # wrong: incompatible type "str"; expected "int | None"
    await send.adjust(speed=3)  # wrong: Unexpected keyword argument "speed"
    WorkerProcesses("shop:app", 2, speed=3)  # wrong: Unexpected keyword argument "speed"
    WorkerProcesses("shop:app", 2, slots="many")  # wrong: incompatible type "str"; expected "int"
    app.queue("q", on_failure=5)  # wrong: No overload variant
    app.task(on_failure=send.fn)  # wrong: No overload variant
    Holdfast("memory://", speed=3)  # wrong: Unexpected keyword argument "speed"
    print(wanted)
    Retry(3)  # wrong: Too many positional arguments
    word: str = app.sync(send.call("ann"))  # wrong: expression has type "int", variable has type "str"
    print(text, result, word)
