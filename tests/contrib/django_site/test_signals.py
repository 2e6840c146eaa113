"""Signals of Django: who asked for them hears what happened, in a thread that may query."""

from typing import Any

from django.db import transaction
from django.dispatch import Signal
from django.test import TestCase, TransactionTestCase
from notes.models import Note
from notes.tasks import fail, write
from undone import undone

from holdfast.contrib.django import get_app
from holdfast.contrib.django.signals import JobSignal, job_completed, job_enqueued, job_failed, job_started
from holdfast.contrib.django.testing import run_jobs


class Heard:
    """A receiver that keeps what it hears, and asks the database each time."""

    def __init__(self, signal: Signal, sender: object = None) -> None:
        self.events: list[tuple[object, str, str]] = []
        self.signal, self.sender = signal, sender

    def __enter__(self) -> "Heard":
        self.signal.connect(self.receive, sender=self.sender)
        return self

    def __exit__(self, *exc: object) -> None:
        self.signal.disconnect(self.receive, sender=self.sender)

    def receive(self, sender: object, alias: str, event: Any, **more: object) -> None:
        assert Note.objects.count() >= 0
        self.events.append((sender, alias, event.id))


class SignalTests(TestCase):
    """In a test, receivers have run when the call returns."""

    def test_receivers_hear_how_a_job_went(self) -> None:
        with Heard(job_started) as started, Heard(job_completed) as completed, Heard(job_failed) as failed:
            one, two = get_app().sync(write.enqueue("a")), get_app().sync(fail.enqueue("b"))
            run_jobs()
        assert [id for _, _, id in started.events] == [one.id, two.id]
        assert completed.events == [(write, "default", one.id)]
        assert failed.events == [(fail, "default", two.id)]

    def test_a_receiver_of_one_task_hears_of_no_other(self) -> None:
        with Heard(job_completed, sender=fail) as heard:
            get_app().sync(write.enqueue("a"))
            run_jobs()
        assert heard.events == []

    def test_a_receiver_that_raises_harms_nothing(self) -> None:
        def receive(**told: object) -> None:
            raise RuntimeError("of a receiver")

        job_completed.connect(receive)
        try:
            get_app().sync(write.enqueue("a"))
            assert [ran.outcome for ran in run_jobs()] == ["completed"]
        finally:
            job_completed.disconnect(receive)

    def test_nothing_is_told_that_nobody_asked_for(self) -> None:
        signal = JobSignal("snooze")
        assert "snooze" not in get_app().hooks.wanted
        with Heard(signal):
            assert "snooze" in get_app().hooks.wanted


class CommitTests(TransactionTestCase):
    """What is enqueued in a transaction is told of at its commit."""

    def test_an_enqueue_is_told_of_when_it_is_committed(self) -> None:
        with Heard(job_enqueued) as heard:
            with transaction.atomic():
                handle = get_app().sync(write.enqueue("a"))
                assert heard.events == []
            assert heard.events == [(write, "default", handle.id)]
            with undone():
                get_app().sync(write.enqueue("b"))
        assert len(heard.events) == 1
