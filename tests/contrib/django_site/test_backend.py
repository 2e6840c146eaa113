"""The backend of Django's task interface: the cases that Django has for its own backends, and what they cannot do."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import TestCase, TransactionTestCase, override_settings
from django.utils import timezone
from notes.background import about, anote, give_back, leave, nested_error, note, odd_result, second_time
from notes.interface import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    default_task_backend,
    task,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from notes.models import Note
from notes.tasks import write
from undone import undone

from holdfast.contrib.django import get_app
from holdfast.contrib.django.backend import HoldfastBackend
from holdfast.contrib.django.testing import arun_jobs, run_jobs

READY, FAILED, SUCCESSFUL = TaskResultStatus.READY, TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL


def local() -> None:
    """Be a function of this module."""


class Cases:
    """What holds in a transaction that is rolled back, and with those that are committed."""

    def test_a_result_is_ready_until_a_worker_has_run_it(self) -> None:
        result = note.enqueue("a")
        assert (result.status, result.is_finished, result.attempts) == (READY, False, 0)
        assert (result.started_at, result.finished_at, result.last_attempted_at) == (None, None, None)
        assert (result.task, result.args, result.kwargs, result.backend) == (note, ["a"], {}, "default")
        assert result.enqueued_at is not None
        with pytest.raises(ValueError, match="Task has not finished yet"):
            _ = result.return_value
        run_jobs()
        assert result.status == READY
        result.refresh()
        assert (result.status, result.is_finished, result.return_value) == (SUCCESSFUL, True, Note.objects.get().pk)
        assert (result.attempts, result.errors) == (1, [])
        assert result.started_at >= result.enqueued_at - timedelta(seconds=1)
        assert result.finished_at >= result.started_at

    def test_a_coroutine_is_a_task(self) -> None:
        result = anote.enqueue("a")
        run_jobs()
        result.refresh()
        assert result.return_value == Note.objects.get().pk

    async def test_everything_can_be_awaited(self) -> None:
        for each in (note, anote):
            result = await each.aenqueue("a")
            assert result.status == READY
            await arun_jobs()
            await result.arefresh()
            assert result.status == SUCCESSFUL
            assert (await each.aget_result(result.id)).id == result.id
        assert await Note.objects.acount() == 2

    def test_arguments_come_back_as_json(self) -> None:
        result = give_back.enqueue(1, (2, b"three"), four={"five": None})
        assert (result.args, result.kwargs) == ([1, [2, "three"]], {"four": {"five": None}})
        run_jobs()
        assert give_back.get_result(result.id).return_value == [[1, [2, "three"]], {"four": {"five": None}}]

    def test_arguments_that_are_no_json_are_refused(self) -> None:
        with pytest.raises(TypeError, match="Unsupported type"):
            give_back.enqueue(timezone.now())
        with pytest.raises(ValueError, match="Unsupported value"):
            give_back.enqueue(b"\xff")
        assert run_jobs() == []

    def test_an_error_is_a_failure_with_its_traceback(self) -> None:
        for each, kind, words in (
            (nested_error, ValueError, "inner"), (odd_result, TypeError, "Unsupported type"),
            (leave, SystemExit, "a task that wants out"),
        ):  # fmt: skip
            result = each.enqueue()
            run_jobs()
            result.refresh()
            assert (result.status, result.is_finished) == (FAILED, True)
            (error,) = result.errors
            assert error.exception_class is kind
            assert words in error.traceback
            with pytest.raises(ValueError, match="Task failed"):
                _ = result.return_value

    def test_a_result_is_found_by_its_id(self) -> None:
        result = note.enqueue("a")
        for found in (note.get_result(result.id), default_task_backend.get_result(result.id)):
            assert (found.id, found.status, found.task, found.args) == (result.id, READY, note, ["a"])
        with pytest.raises(TaskResultMismatch):
            anote.get_result(result.id)

    def test_what_is_no_result_is_not_found(self) -> None:
        other = get_app().sync(write.enqueue("a job, and no task of Django's"))
        for id in ("nobody", "", other.id):
            with pytest.raises(TaskResultDoesNotExist):
                default_task_backend.get_result(id)

    def test_a_task_gets_its_context(self) -> None:
        result = about.enqueue("is")
        run_jobs()
        result.refresh()
        assert result.return_value == f"is {result.id} 1 RUNNING"

    def test_a_higher_priority_comes_first(self) -> None:
        for number in (-100, 0, 100):
            note.using(priority=number).enqueue(str(number))
        run_jobs()
        assert [each.text for each in Note.objects.order_by("pk")] == ["100", "0", "-100"]

    def test_a_task_runs_in_the_queue_that_it_names(self) -> None:
        result, other = give_back.enqueue(), note.using(queue_name="slow").enqueue("a")
        assert [ran.id for ran in run_jobs(queues=["slow"])] == [result.id, other.id]
        assert (give_back.get_result(result.id).task.queue_name, result.task.priority) == ("slow", 7)

    def test_without_a_list_of_queues_a_task_runs_in_any(self) -> None:
        result = note.using(backend="any", queue_name="not-listed").enqueue("a")
        run_jobs()
        assert task_backends["any"].get_result(result.id).return_value == Note.objects.get().pk

    def test_a_task_runs_as_the_backend_says_that_enqueued_it(self) -> None:
        result = nested_error.using(backend="retrying").enqueue()
        assert [ran.outcome for ran in run_jobs()] == ["retried", "failed"]
        assert task_backends["retrying"].get_result(result.id).status == FAILED

    def test_a_task_runs_after_its_time(self) -> None:
        soon, later = timezone.now() - timedelta(hours=1), timezone.now() + timedelta(hours=1)
        result = note.using(run_after=later).enqueue("later")
        note.using(run_after=soon).enqueue("now")
        assert len(run_jobs()) == 1
        assert note.get_result(result.id).status == READY

    def test_a_task_in_a_transaction_is_a_part_of_it(self) -> None:
        with undone():
            result = note.enqueue("undone")
        with pytest.raises(TaskResultDoesNotExist):
            note.get_result(result.id)
        assert run_jobs() == []

    def test_signals_are_sent_in_their_order(self) -> None:
        heard: list[tuple[str, str, type]] = []
        receivers = {}
        for name, signal in (("enqueued", task_enqueued), ("started", task_started), ("finished", task_finished)):

            def receive(sender: Any, task_result: Any, name: str = name, **more: Any) -> None:
                assert Note.objects.count() >= 0
                heard.append((name, task_result.status, sender))

            receivers[signal] = receive
            signal.connect(receive)
        try:
            note.enqueue("a")
            nested_error.enqueue()
            run_jobs()
        finally:
            for signal, receive in receivers.items():
                signal.disconnect(receive)
        words = [("enqueued", READY)] * 2 + [("started", "RUNNING"), ("finished", SUCCESSFUL)]
        words += [("started", "RUNNING"), ("finished", FAILED)]
        assert heard == [(*word, HoldfastBackend) for word in words]


class InTestCase(Cases, TestCase):
    """In a transaction that is rolled back."""


class InTransactionTestCase(Cases, TransactionTestCase):
    """With transactions that are committed."""

    def test_a_retry_is_another_attempt(self) -> None:
        finished: list[str] = []

        def receive(task_result: Any, **more: Any) -> None:
            finished.append(task_result.status)

        task_finished.connect(receive)
        try:
            result = second_time.enqueue()
            run_jobs()
        finally:
            task_finished.disconnect(receive)
        result.refresh()
        assert (result.status, result.return_value, result.attempts) == (SUCCESSFUL, 2, 2)
        assert [id.partition("-")[0] for id in result.worker_ids] == ["drain", "drain"]
        assert finished == [SUCCESSFUL]


def test_the_backend_says_what_it_can_do() -> None:
    backend = default_task_backend
    assert backend.supports_defer
    assert backend.supports_async_task
    assert backend.supports_get_result
    assert backend.supports_priority
    assert isinstance(task_backends["default"], HoldfastBackend)


def test_a_task_that_cannot_be_one_is_refused() -> None:
    for wrong, words in (
        (lambda: task(lambda: None), "Task function must be defined at a module level"),
        (lambda: task(takes_context=True)(local), "does not have a first argument of 'context'"),
        (lambda: note.using(priority=101), "priority must be a whole number between -100 and 100"),
        (lambda: note.using(priority=-101), "priority must be a whole number between -100 and 100"),
        (lambda: note.using(priority=1.5), "priority must be a whole number between -100 and 100"),
        (lambda: note.using(queue_name="nowhere"), "Queue 'nowhere' is not valid for backend"),
        (lambda: note.using(run_after=timezone.now().replace(tzinfo=None)), "run_after must be an aware datetime"),
    ):  # fmt: skip
        with pytest.raises((InvalidTask, ValueError), match=words):
            wrong()


def test_checks_name_what_is_wrong_with_the_settings() -> None:
    path = "holdfast.contrib.django.backend.HoldfastBackend"
    for options, id, words in (
        ({"ALIAS": "nobody"}, "holdfast.E011", "ALIAS='nobody' is no alias of HOLDFAST; it has default, mail, far"),
        ({"retries": 3}, "holdfast.E012", "'retries' is no option"),
    ):  # fmt: skip
        with override_settings(TASKS={"default": {"BACKEND": path, "OPTIONS": options}}):
            (message,) = task_backends["default"].check()
            assert message.id == id
            assert words in message.msg
    assert list(default_task_backend.check()) == []
