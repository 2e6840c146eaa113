"""Handlers with the ORM, of every kind."""

from asgiref.sync import sync_to_async
from django.db import connection, transaction

from holdfast import Job, Retry, current_job
from holdfast.contrib.django import get_app, task

from . import background  # noqa: F401  # the tasks of Django's own interface
from .models import Note


@task
def write(text: str) -> int:
    """Write a note."""
    return Note.objects.create(text=text).pk


@task
async def awrite(text: str) -> int:
    """Write a note, from a coroutine."""
    return (await Note.objects.acreate(text=text)).pk


@task(queue="follow")
def write_and_follow(text: str) -> None:
    """Write a note, and enqueue another with it."""
    with transaction.atomic():
        Note.objects.create(text=text)
        get_app().sync(write.enqueue(f"after {text}"))


@task(retry=Retry(failures=1))
def fail(text: str) -> None:
    """Write a note, and raise."""
    Note.objects.create(text=text)
    raise ValueError(text)


@task(retry=Retry(failures=1))
def lose_connection() -> None:
    """Have the server end this thread's connection, and use it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


@task(executor="process")
def write_in_process(text: str) -> int:
    """Write a note in a process of its own."""
    return Note.objects.create(text=text).pk


@task(retry=Retry(failures=1))
async def alose_connection() -> None:
    """Have the server end the connection of the thread in which coroutines query, and use it."""
    await sync_to_async(lose_connection.fn)()


@task
def identify(job: Job) -> str:
    """Say which job this is."""
    assert current_job() is job
    return job.id


@get_app("mail").task()
def send(to: str) -> str:
    """Stand for a mail."""
    return f"sent to {to}"


@get_app("far").task()
def ping(text: str) -> str:
    """Answer."""
    return text
