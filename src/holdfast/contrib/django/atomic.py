"""Jobs that are enqueued inside `transaction.atomic`: in that transaction, or when it is committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from django.db import connections, transaction

from ...app.hooks import HookEvent
from ...client.client import transactional
from ...core.state import State
from ...errors import ConfigError
from ...store.contract import KEEP, Answer, Conflict, NewJob
from .configuration import alias_settings
from .connections import in_loop
from .signals import job_enqueued

if TYPE_CHECKING:
    from ...app.app import Holdfast


def transaction_of_caller(app: Holdfast, alias: str) -> Callable[[], object]:
    """Return what tells the app of an alias in which transaction of Django's its caller stands."""

    def find() -> object:
        if in_loop():  # where Django has no transactions
            return None
        known = alias_settings(alias)
        database = known.database or known.on_commit
        if database is None or not is_in_transaction(database):
            return None
        return (InTransaction if known.database else OnCommit)(app, alias, database)

    return find


def is_in_transaction(database: str) -> bool:
    """Return whether this thread has a transaction open, by `atomic` or with autocommit off."""
    wrapper = connections[database]
    return bool(wrapper.in_atomic_block or (wrapper.connection is not None and not wrapper.autocommit))


class InTransaction:
    """Takes in jobs on Django's own connection, so that they are a part of the open transaction."""

    def __init__(self, app: Holdfast, alias: str, database: str) -> None:
        self._app = app
        self._alias = alias
        self._database = database

    def enqueue(self, queue: str, jobs: Sequence[NewJob], conflict: Conflict = KEEP) -> list[Answer]:
        """Enqueue jobs; receivers of `job_enqueued` hear of them once the transaction is committed."""
        answers = self._joined(queue, jobs, conflict)
        if job_enqueued.has_listeners():
            transaction.on_commit(partial(self._tell, queue, list(jobs), answers), using=self._database)
        return answers

    def _joined(self, queue: str, jobs: Sequence[NewJob], conflict: Conflict) -> list[Answer]:
        store = transactional(self._app.store, "transaction.atomic")
        try:
            return cast(list[Answer], store.join(connections[self._database]).enqueue(queue, jobs, conflict))
        except ConfigError as error:
            raise ConfigError(
                f"{error} (HOLDFAST[{self._alias!r}]: manage.py migrate --database {self._database} makes the schema)"
            ) from error

    def _tell(self, queue: str, jobs: Sequence[NewJob], answers: Sequence[Answer]) -> None:
        for job, answer in zip(jobs, answers, strict=True):
            if answer.status == "queued":
                event = HookEvent(
                    name="enqueue", queue=queue, id=answer.id, run=answer.run, task=job.task, state=answer.state
                )
                job_enqueued.tell(self._alias, self._app, event)


class OnCommit:
    """Takes in jobs for a store that is elsewhere: they are enqueued there once the transaction is committed."""

    sends_later = True
    """The span of sending them is that of the commit."""

    def __init__(self, app: Holdfast, alias: str, database: str) -> None:
        self._app = app
        self._database = database

    def enqueue(self, queue: str, jobs: Sequence[NewJob], conflict: Conflict = KEEP) -> list[Answer]:
        """Enqueue jobs when the transaction is committed; return answers that are known from then on."""
        waiting = [WaitingAnswer(queue, job.id) for job in jobs]
        transaction.on_commit(partial(self._send, queue, list(jobs), conflict, waiting), using=self._database)
        return cast(list[Answer], waiting)

    def _send(self, queue: str, jobs: Sequence[NewJob], conflict: Conflict, waiting: list[WaitingAnswer]) -> None:
        answers = self._app.sync(self._app.client.enqueue(queue, jobs, conflict, passed=True))
        for each, answer in zip(waiting, answers, strict=True):
            each.answer = answer


class WaitingAnswer:
    """The answer to an enqueue that waits for a commit: until then only the job's id is known."""

    def __init__(self, queue: str, id: str) -> None:
        self.queue = queue
        self.id = id
        self.answer: Answer | None = None

    @property
    def status(self) -> str:
        """What became of the enqueue; `queued` as long as it waits."""
        return "queued" if self.answer is None else self.answer.status

    @property
    def state(self) -> State:
        """The state of the run that answered; `waiting` as long as there is none."""
        return State.WAITING if self.answer is None else self.answer.state

    @property
    def run(self) -> int:
        """The run that answered."""
        return self._known().run

    @property
    def result(self) -> bytes | None:
        """The result of a run that was there, completed."""
        return self._known().result

    def _known(self) -> Answer:
        if self.answer is None:
            raise ConfigError(
                f"{self.queue}/{self.id} is enqueued when the transaction is committed, which it is not yet: ask for "
                "its run or result after the commit"
            )
        return self.answer
