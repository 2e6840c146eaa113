"""What observers are told of a worker, and that it costs nothing where there are none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from support import burst, eventually, run, working

from holdfast import ConfigError, Holdfast, Permanent, Retry, Snooze
from holdfast.core.limit import QueueSettings
from holdfast.core.policy import Policy
from holdfast.errors import StoreError
from holdfast.store.contract import Claimed
from holdfast.telemetry.observed_store import observed
from holdfast.telemetry.observer import Ended, Observer, Observers, StoreCall, WorkerEvent, WorkerView


class Recorder(Observer):
    """Keeps all that it is told."""

    def __init__(self) -> None:
        self.claimed: list[Claimed] = []
        self.ended: list[Ended] = []
        self.calls: list[StoreCall] = []
        self.events: list[WorkerEvent] = []
        self.settings: list[tuple[str, QueueSettings]] = []
        self.policies: list[tuple[str, str, Policy]] = []
        self.views: list[WorkerView] = []
        self.seen: list[tuple[str, int, int, int]] = []

    def begin(self, worker: WorkerView) -> None:
        self.views.append(worker)

    def end(self, worker: WorkerView) -> None:
        assert self.views == [worker]

    def started(self, claimed: Sequence[Claimed]) -> None:
        self.claimed += claimed
        view = self.views[0]
        self.seen.append((view.name, view.slots, view.free, view.running))

    def settled(self, ended: Sequence[Ended]) -> None:
        self.ended += ended

    def store_call(self, call: StoreCall) -> None:
        self.calls.append(call)

    def happened(self, event: WorkerEvent) -> None:
        self.events.append(event)

    def settings_changed(self, queue: str, before: QueueSettings, after: QueueSettings) -> None:
        self.settings.append((queue, after))

    def policy_changed(self, queue: str, task: str, before: Policy, after: Policy) -> None:
        self.policies.append((queue, task, after))


def made(handler: Callable[[], object], **options: object) -> Holdfast:
    app = Holdfast("memory://")
    app.task(name="do", queue="work", **options)(handler)  # type: ignore[call-overload]
    return app


async def ran(app: Holdfast, count: int = 1, **options: object) -> Recorder:
    recorder = Recorder()
    async with app:
        for _ in range(count):
            await app.registry.tasks["do"].enqueue()
        await burst(app, observers=[recorder], name="w", **options)
    return recorder


def test_an_observer_hears_of_starts_and_ends_many_at_once() -> None:
    recorder = run(ran(made(lambda: 7), 3, slots=4))
    assert [(each.task, each.lease.queue) for each in recorder.claimed] == [("do", "work")] * 3
    assert [(each.transition, each.cause) for each in recorder.ended] == [("complete", None)] * 3
    assert all(each.ran is not None and each.waited >= 0 and each.settled for each in recorder.ended)
    assert recorder.seen == [("w", 4, 1, 3)]
    assert recorder.views[0].queues == ("work",)
    assert recorder.views[0].store_url.startswith("memory:")
    turns = [each for each in recorder.calls if each.name == "settle_and_claim"]
    assert sum(each.claimed for each in turns) == sum(each.settled for each in turns) == 3
    assert {"register", "leave"} <= {each.name for each in recorder.calls}
    assert [each.name for each in recorder.events] == ["worker_started", "worker_stopping", "worker_stopped"]


def test_a_retry_says_when_the_job_comes_back_and_a_failure_that_it_failed() -> None:
    def break_down() -> None:
        raise ValueError("broken")

    recorder = run(ran(made(break_down, retry=Retry(failures=3, initial=0.01, multiplier=2))))
    told = [(each.transition, each.cause, each.retry_in) for each in recorder.ended]
    assert told == [("retry", "failure", 0.01), ("retry", "failure", 0.02), ("fail", "failure", None)]
    assert all(isinstance(each.error, ValueError) for each in recorder.ended)


def test_other_ends_have_their_transition() -> None:
    ends = iter([Snooze(after=0), Permanent("no")])

    def end() -> None:
        raise next(ends)

    recorder = run(ran(made(end)))
    assert [each.transition for each in recorder.ended] == ["snooze", "fail"]


def test_settings_and_policies_that_others_change_are_told() -> None:
    async def steps() -> Recorder:
        app, recorder = made(lambda: None), Recorder()
        async with working(app, observers=[recorder], lease=0.3, poll=0.02):
            await app.queue("work").set(priority=3)
            await app.registry.tasks["do"].adjust(failures=9)
            await app.registry.tasks["do"].enqueue()
            await eventually(lambda: recorder.settings and recorder.policies)
        return recorder

    recorder = run(steps())
    assert [(queue, after.priority) for queue, after in recorder.settings] == [("work", 3)]
    assert [(queue, task, after.retry.failures) for queue, task, after in recorder.policies] == [("work", "do", 9)]


def test_an_observer_that_raises_harms_no_job(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Recorder):
        def settled(self, ended: Sequence[Ended]) -> None:
            raise RuntimeError("broken")

    async def steps() -> Recorder:
        app, recorder = made(lambda: None), Recorder()
        async with app:
            await app.registry.tasks["do"].enqueue()
            report = await burst(app, observers=[Broken(), recorder])
        assert report.completed == 1
        return recorder

    assert len(run(steps()).ended) == 1
    assert "observer_failed: Broken raised" in caplog.text


def test_a_store_that_is_back_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def steps() -> Recorder:
        app, recorder = made(lambda: None), Recorder()
        async with app:
            turn, failures = app.store.settle_and_claim, iter([StoreError("away"), StoreError("away")])

            async def failing(*args: object, **kwargs: object) -> object:
                if (error := next(failures, None)) is not None:
                    raise error
                return await turn(*args, **kwargs)  # type: ignore[arg-type]

            app.store.settle_and_claim = failing  # type: ignore[method-assign, assignment]
            await app.registry.tasks["do"].enqueue()
            await burst(app, observers=[recorder])
        return recorder

    recorder = run(steps())
    names = [each.name for each in recorder.events]
    assert names == [
        "worker_started",
        "worker_error",
        "worker_error",
        "store_back",
        "worker_stopping",
        "worker_stopped",
    ]
    assert [str(each.error) for each in recorder.calls if each.error is not None] == ["away", "away"]
    assert "store_back: the store answers again after" in caplog.text


def test_what_is_no_observer_is_refused() -> None:
    app = made(lambda: None)
    with pytest.raises(ConfigError, match=r"observers: 'x': a list of objects of holdfast.telemetry"):
        app.worker(observers=["x"])  # type: ignore[list-item]


def test_nothing_is_kept_where_nobody_listens() -> None:
    app = made(lambda: None)
    worker = app.worker()

    async def steps() -> None:
        async with app:
            await app.registry.tasks["do"].enqueue()
            await worker.run(burst=True)

    kept: list[object] = []
    from holdfast.worker import outcomes

    record, outcomes._record_of = outcomes._record_of, lambda attempt: kept.append(attempt)  # type: ignore[assignment, func-returns-value]
    try:
        run(steps())
    finally:
        outcomes._record_of = record
    assert kept == []


def test_calls_of_the_store_are_timed_only_where_an_observer_hears_of_them() -> None:
    class Deaf(Observer):
        def settings_changed(self, queue: str, before: QueueSettings, after: QueueSettings) -> None: ...

    app = Holdfast("memory://")
    unheard, heard = (observed(app.store, Observers([each])) for each in (Deaf(), Recorder()))
    assert unheard.jobs == app.store.jobs
    assert heard.jobs != app.store.jobs
    assert unheard.settle_and_claim != app.store.settle_and_claim  # its reply tells of settings
