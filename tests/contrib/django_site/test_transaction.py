"""Jobs and the test's transaction, in `TestCase`, `TransactionTestCase` and with pytest-django."""

import json

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test import AsyncClient, Client, TestCase, TransactionTestCase
from notes.models import Note
from notes.tasks import awrite, fail, identify, ping, send, write, write_and_follow
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from undone import undone

from holdfast.contrib.django import get_app
from holdfast.contrib.django.testing import JobsMixin, arun_jobs, run_jobs
from holdfast.telemetry.traces import configure


def texts() -> list[str]:
    return list(Note.objects.order_by("pk").values_list("text", flat=True))


class Cases:
    """What holds in every kind of test case. Two tests of each name show that none sees another's jobs."""

    def test_a_job_is_enqueued_and_run_in_the_thread_of_the_test(self) -> None:
        handle = get_app().sync(write.enqueue("a"))
        (ran,) = run_jobs()
        assert (ran.id, ran.outcome, ran.result) == (handle.id, "completed", Note.objects.get().pk)
        assert get_app().sync(handle.result()) == ran.result

    def test_a_test_sees_no_jobs_of_another(self) -> None:
        assert run_jobs() == []
        get_app().sync(write.enqueue("b"))
        assert [job.task for job in get_app().sync(get_app().jobs()).jobs] == ["write"]

    def test_a_test_sees_no_jobs_of_another_either_way(self) -> None:
        self.test_a_test_sees_no_jobs_of_another()

    def test_what_a_transaction_rolls_back_was_never_enqueued(self) -> None:
        with undone():
            get_app().sync(write.enqueue("undone"))
        with transaction.atomic():
            get_app().sync(write.enqueue("kept"))
        assert [ran.outcome for ran in run_jobs()] == ["completed"]
        assert texts() == ["kept"]

    def test_a_view_enqueues_in_its_transaction(self) -> None:
        client = Client()
        answer = client.post("/post", {"text": "one"})
        client.post("/post", {"text": "two", "fail": "1"})
        assert [ran.id for ran in run_jobs()] == [answer.json()["id"]]
        assert texts() == ["one", "job of one"]

    def test_an_async_handler_uses_the_orm(self) -> None:
        get_app().sync(awrite.enqueue("async"))
        assert [ran.outcome for ran in run_jobs()] == ["completed"]
        assert texts() == ["async"]

    def test_a_handler_enqueues_another_job_in_a_transaction(self) -> None:
        get_app().sync(write_and_follow.enqueue("first"))
        assert [ran.task for ran in run_jobs()] == ["write_and_follow", "write"]
        assert texts() == ["first", "after first"]

    def test_a_command_is_a_part_of_the_test(self) -> None:
        call_command("holdfast", "enqueue", "write", "text=by command", "--id", "of-this-test")
        call_command("holdfast", "jobs", "--json")
        with pytest.raises(CommandError, match=r"holdfast jobs show default x ended with exit code \d"):
            call_command("holdfast", "jobs", "show", "default", "x")
        assert [ran.id for ran in run_jobs()] == ["of-this-test"]
        assert Note.objects.get().text == "by command"

    def test_a_failure_is_recorded_or_raised(self) -> None:
        handle = get_app().sync(fail.enqueue("a"))
        (ran,) = run_jobs()
        assert (ran.outcome, str(ran.error)) == ("failed", "a")
        record = get_app().sync(handle.job())
        assert record.error is not None
        assert record.error.type == "ValueError"
        get_app().sync(fail.enqueue("b"))
        with pytest.raises(ValueError, match="b"):
            run_jobs(raise_errors=True)

    def test_a_handler_has_its_job(self) -> None:
        handle = get_app().sync(identify.enqueue())
        assert [ran.result for ran in run_jobs()] == [handle.id]

    def test_aliases_have_stores_of_their_own(self) -> None:
        get_app("mail").sync(send.enqueue("ann"))
        assert run_jobs() == []
        assert [ran.result for ran in run_jobs("mail")] == ["sent to ann"]

    def test_many_jobs_in_one_transaction(self) -> None:
        with transaction.atomic():
            counts = get_app().sync(write.enqueue_many(write.args(f"n{number}") for number in range(5)))
        assert counts.queued == len(run_jobs()) == 5

    def test_a_job_that_waits_for_others_runs_after_them(self) -> None:
        app = get_app()
        with transaction.atomic():
            first = app.sync(write.enqueue("first"))
            app.sync(write.options(blockers=[first], priority=5).enqueue("second"))
        assert [ran.outcome for ran in run_jobs()] == ["completed"] * 2
        assert texts() == ["first", "second"]

    async def test_an_async_test_awaits(self) -> None:
        handle = await write.enqueue("awaited")
        (ran,) = await arun_jobs()
        assert ran.id == handle.id
        assert (await Note.objects.aget()).text == "awaited"

    async def test_an_async_view_needs_no_lifespan(self) -> None:
        answer = await AsyncClient().post("/apost", {"text": "from a view"})
        assert json.loads(answer.content)["run"] > 0
        assert [ran.outcome for ran in await arun_jobs()] == ["completed"]


class InTestCase(Cases, TestCase):
    """In a transaction that is rolled back."""

    def test_a_worker_has_no_place_in_a_transaction(self) -> None:
        with pytest.raises(CommandError, match=r"the threads of a worker do not see .*: call run_jobs\(\) of"):
            call_command("holdfast", "worker", "--burst")


class InTransactionTestCase(Cases, TransactionTestCase):
    """With transactions that are committed, and a flush at the end."""


class FarTests(JobsMixin, TestCase):
    """A store elsewhere: its jobs are enqueued on commit, and kept in memory in tests."""

    def test_a_job_is_enqueued_when_the_transaction_is_committed(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            answer = self.client.post("/post-far", {"text": "far"})
            assert run_jobs("far") == []
        assert [(ran.id, ran.result) for ran in run_jobs("far")] == [(answer.json()["id"], "far")]

    def test_a_rollback_enqueues_nothing(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            self.client.post("/post-far", {"text": "far", "fail": "1"})
        assert self.run_jobs("far") == []

    def test_jobs_of_one_test_are_gone_in_the_next(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            handle = get_app("far").sync(ping.enqueue("x"))
            assert (handle.status, handle.state) == ("queued", "waiting")
            with pytest.raises(Exception, match="is enqueued when the transaction is committed, which it is not yet"):
                _ = handle.run
        assert handle.run > 0
        assert len(get_app("far").sync(get_app("far").jobs()).jobs) == 1

    test_jobs_of_one_test_are_gone_in_the_next_either_way = test_jobs_of_one_test_are_gone_in_the_next


@pytest.mark.django_db
def test_pytest_runs_jobs_in_the_transaction_of_the_test(client: Client) -> None:
    client.post("/post-at-once", {"text": "p"})
    assert [ran.outcome for ran in run_jobs()] == ["completed"]
    assert texts() == ["p"]


@pytest.mark.django_db
def test_pytest_isolates_tests() -> None:
    assert run_jobs() == []


@pytest.mark.django_db(transaction=True)
def test_pytest_runs_jobs_in_a_test_that_commits(client: Client) -> None:
    client.post("/post-at-once", {"text": "p"})
    client.post("/post", {"text": "q"})
    assert [ran.outcome for ran in run_jobs()] == ["completed"] * 2
    get_app().sync(write.enqueue("left"))


@pytest.mark.django_db(transaction=True)
def test_pytest_flushes_jobs() -> None:
    assert run_jobs() == []


@pytest.mark.django_db(transaction=True)
def test_jobs_for_a_store_elsewhere_pass_producer_middleware_once_and_are_traced_at_the_commit() -> None:
    provider = TracerProvider()
    spans = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    app, seen = get_app("far"), list[str]()
    app.producer_middleware(lambda job: seen.append(job.id))
    configure(tracer_provider=provider)
    try:
        with transaction.atomic():
            handle = app.sync(ping.enqueue("x"))
            assert spans.get_finished_spans() == ()
        assert seen == [handle.id]
        assert len(spans.get_finished_spans()) == 1
    finally:
        configure()
        app.client.producers.middleware.clear()
