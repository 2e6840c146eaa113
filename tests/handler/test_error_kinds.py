"""Errors that no retry would help fail a job at once, whoever made them and wherever they were raised."""

from __future__ import annotations

import error_tasks
import pytest
from support import working

from holdfast import ConfigError, ErrorRecord, Holdfast, JobFailed, Retry
from holdfast.core.policy import Policy


async def failed(executor: str, what: str, **options: Retry) -> tuple[ErrorRecord, int]:
    """Return the error with which a job failed, and its failures."""
    task = error_tasks.TASKS[executor]
    async with working(error_tasks.app, pool=1):
        handle = await (task.options(**options) if options else task).enqueue(what)  # type: ignore[arg-type]
        with pytest.raises(JobFailed) as caught:
            await handle.result()
        return caught.value.error, (await handle.job()).counters.failures


@pytest.mark.parametrize("executor", ["inline", "thread", "process"])
@pytest.mark.parametrize(
    ("what", "kind", "failures"),
    [
        ("value", "permanent", 1),
        ("below", "permanent", 1),
        ("key", "failure", 2),
        ("client", "permanent", 1),
        ("server", "failure", 2),
        ("word", "permanent", 1),
        ("odd", "failure", 2),
    ],
)
async def test_an_error_is_permanent_by_its_class_or_by_its_own_word(
    executor: str, what: str, kind: str, failures: int
) -> None:
    error, counted = await failed(executor, what)
    assert (error.kind, counted) == (kind, failures)
    assert error.message == str(error_tasks.ERRORS[what]())


async def test_a_jobs_own_retry_says_which_errors_are_permanent() -> None:
    error, counted = await failed("inline", "key", retry=Retry(failures=2, initial=0.001, permanent=("KeyError",)))
    assert (error.kind, counted) == ("permanent", 1)
    error, counted = await failed("inline", "value", retry=Retry(failures=2, initial=0.001))
    assert (error.kind, counted) == ("failure", 2)


async def test_what_is_permanent_is_the_workers_to_know_and_no_stores() -> None:
    app = Holdfast("memory://")

    @app.task(retry=Retry(permanent=(KeyError,)))
    async def send() -> None: ...

    assert send.policy() == Policy()
    async with app:
        with pytest.raises(ConfigError, match="'permanent' is not a setting of a task; known are failures, stalls"):
            await send.adjust(permanent=["ValueError"])


def test_classes_are_kept_by_name() -> None:
    assert Retry(permanent=(ValueError, error_tasks.Refused, "httpx.InvalidURL")).permanent == (
        "ValueError", "error_tasks.Refused", "httpx.InvalidURL",
    )  # fmt: skip
    assert Retry(permanent=KeyError).permanent == ("KeyError",)  # type: ignore[arg-type]
    assert Retry(permanent=[KeyError]) == Retry(permanent=("KeyError",))


@pytest.mark.parametrize("wrong", [7, (int,), (7,), ("",), (ValueError("x"),), None])
def test_what_is_no_class_of_errors_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigError, match=r"Retry\(permanent="):
        Retry(permanent=wrong)  # type: ignore[arg-type]
