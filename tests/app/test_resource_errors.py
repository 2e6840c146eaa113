"""Resources and dependencies that cannot be right are refused when they are declared, by name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any

import pytest
from support import working

from holdfast import ConfigError, Depends, Holdfast, Job, PayloadError, Sandbox

app = Holdfast("memory://resource-errors")


class Pool:
    """Something that no payload could carry."""


@app.resource
async def pool() -> AsyncIterator[Pool]:
    yield Pool()


@app.resource(scope="worker")
def model() -> int:
    return 1


@app.resource(scope="attempt")
def session(job: Job) -> Iterator[str]:
    yield job.id


@app.resource(scope="attempt")
def both(n: int = Depends(model), id: str = Depends(session)) -> str:
    return f"{id}{n}"


def test_only_resources_and_jobs_can_be_depended_on() -> None:
    def get_db() -> int:
        return 1

    with pytest.raises(ConfigError, match=r"Depends\(get_db\): give a resource, or Job; a function becomes a resource"):
        Depends(get_db)  # type: ignore[call-overload]


@pytest.mark.parametrize("decorate", [contextmanager, asynccontextmanager])
def test_a_resource_is_no_context_manager(decorate: Callable[..., Any]) -> None:
    """Handlers would be given the context manager in place of what it yields."""
    with pytest.raises(ConfigError, match=r"resource 'pool': leave out @contextmanager or @asynccontextmanager; a fu"):

        @app.resource
        @decorate
        def pool() -> Any:
            yield 1


def test_a_resource_is_a_function_of_known_scope() -> None:
    with pytest.raises(ConfigError, match=r"@app\.resource takes a function, which yields or returns .*, not 5"):
        app.resource(5)  # type: ignore[call-overload]
    with pytest.raises(
        ConfigError, match=r"resource '<lambda>': scope='thread': \"worker\", \"process\" or \"attempt\""
    ):
        app.resource(scope="thread")(lambda: 1)  # type: ignore[arg-type]


def test_a_resource_depends_on_nothing_that_is_not_open_then() -> None:
    with pytest.raises(
        ConfigError, match=r"resource 'wrong' has scope='process' and depends on 'session', which has scope='attempt'"
    ):

        @app.resource
        def wrong(id: str = Depends(session)) -> str:
            return id

    with pytest.raises(ConfigError, match=r"'process' and depends on 'model', which has scope='worker'"):

        @app.resource
        def wrong_too(n: int = Depends(model)) -> int:
            return n

    with pytest.raises(ConfigError, match=r"resource 'of_job': 'job' is a Job, and with scope='worker' it is opened"):

        @app.resource(scope="worker")
        def of_job(job: Job) -> str:
            return job.id


def test_a_parameter_that_nobody_fills_in_is_refused_so_that_there_are_no_cycles() -> None:
    with pytest.raises(ConfigError, match=r"resource 'first': its parameter 'other' is filled in by nobody"):

        @app.resource
        def first(other: Annotated[int, "Depends(second)"]) -> int:
            return other


def test_a_task_depends_on_resources_of_its_own_app() -> None:
    other = Holdfast("memory://other")
    with pytest.raises(ConfigError, match=r"task 'send': it depends on the resource 'pool' of another app"):

        @other.task
        async def send(db: Pool = Depends(pool)) -> None: ...


def in_process(to: str, n: int = Depends(model)) -> None: ...
def in_process_through(to: str, word: str = Depends(both)) -> None: ...
def in_sandbox(to: str, db: Pool = Depends(pool)) -> None: ...


def test_a_task_depends_on_what_is_open_where_it_runs() -> None:
    for fn in (in_process, in_process_through):
        with pytest.raises(
            ConfigError, match=r"it runs in a process, and the resource 'model' with scope='worker' is open in the"
        ):
            app.task(executor="process")(fn)
    with pytest.raises(
        ConfigError, match=r"it runs in a sandbox, where the resource 'pool' with scope='process' is not open"
    ):
        app.task(executor="sandbox", sandbox=Sandbox())(in_sandbox)


def test_it_must_be_possible_to_fill_it_in_by_name() -> None:
    with pytest.raises(ConfigError, match=r"rest\(\) must take 'db' by keyword: declare it after a \*"):

        @app.task
        def rest(db: Pool = Depends(pool), *items: int) -> None: ...


@app.task(queue="calls")
async def send(to: str, db: Pool = Depends(pool), **more: str) -> str:
    return to


@app.task(queue="calls")
async def forgot(to: str, db: Pool) -> None: ...


async def test_callers_do_not_pass_what_is_filled_in() -> None:
    async with app:
        with pytest.raises(TypeError, match=r"send\(\) got an unexpected keyword argument 'db'"):
            await send.enqueue("ann", db=Pool())


async def test_an_argument_that_looks_like_a_resource_is_explained() -> None:
    note = ["'db' is what the resource 'pool' gives: to have it filled in, write db: Pool = Depends(pool)"]
    async with app:
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'db'") as missing:
            await forgot.enqueue("ann")  # type: ignore[call-arg]
        assert missing.value.__notes__ == note
        with pytest.raises(PayloadError, match="db is a Pool, which JSON cannot carry") as passed:
            await forgot.enqueue("ann", Pool())
        assert passed.value.__notes__ == note
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'to'") as other:
            await forgot.enqueue(db=Pool())  # type: ignore[call-arg]
        assert not hasattr(other.value, "__notes__")


def test_a_resource_of_an_attempt_is_not_open_outside() -> None:
    with pytest.raises(
        ConfigError, match=r"'session' is not open here: it is opened for attempts .* default Depends\(session\)"
    ):
        session()
    with pytest.raises(ConfigError, match="'pool' is not open here"):
        send("ann")


def test_what_is_no_resource_cannot_be_overridden() -> None:
    with pytest.raises(ConfigError, match=r"override\(.*, \.\.\.\): give what @app\.resource made"):
        app.override(send, 5)  # type: ignore[arg-type]


def test_overrides_may_be_nested() -> None:
    with app.override(model, 5):
        assert model() == 5
        with app.override(model, 6):
            assert model() == 6
        assert model() == 5


@app.task(queue="annotated")
async def annotated(to: str, db: Annotated[Pool, Depends(pool)], job: Annotated[Job, "mine"], n: int = 3) -> list[Any]:
    return [to, type(db).__name__, job.id, n]


@app.task(queue="annotated")
def untyped(to: str, *, job=Depends(Job), db=Depends(pool)):  # type: ignore[no-untyped-def]
    return [to, type(db).__name__, job.id, 3]


@app.task(queue="annotated")
def last(to: str, n: int, job: Job) -> list[Any]:
    return [to, "Pool", job.id, n]


async def test_it_may_stand_in_the_annotation_and_a_job_anywhere() -> None:
    async with working(app, "annotated"):
        for task, args in ((annotated, ("ann",)), (untyped, ("ann",)), (last, ("ann", 3))):
            handle = await task.enqueue(*args)  # type: ignore[arg-type]
            assert await handle.result() == ["ann", "Pool", handle.id, 3]


def test_a_task_needs_no_parentheses_and_its_options_have_names() -> None:
    @app.task
    def bare(n: int) -> int:
        """Documented."""
        return n

    assert (bare.name, bare.queue, bare.__doc__, bare(3)) == ("bare", "default", "Documented.", 3)
    with pytest.raises(ConfigError, match=r"@app\.task takes a function, not 'mail'; its options have names: @app"):
        app.task("mail")  # type: ignore[call-overload]
