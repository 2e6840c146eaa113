"""What an app knows: its tasks, its queues, and what they say of their settings."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ..client import Client
from ..client.options import refuse_keyless
from ..codec import Codec
from ..codec import codec as find_codec
from ..codec.hints import is_foreign
from ..codec.plain import Hint
from ..core.bound import MOST_NAME_BYTES
from ..core.declaration import Settings, check_version
from ..core.duration import to_ms, ttl_ms
from ..core.limit import Rate
from ..core.policy import FAIL_HANDLER_RETRY, Policy
from ..core.schedule import Plan
from ..core.size import fit_result
from ..core.state import State
from ..errors import ConfigError
from ..handler.continuation import Blocker
from ..handler.middleware import Middleware
from ..store.contract import BlockerRecord, Declaration, NewJob
from .check import check_layer, check_task
from .home import Openable
from .hooks import Hooks
from .options import QueueOptions
from .plain import PlainHandler, QueueDeclaration, check_handler, runner_of
from .resource import Resource
from .settings import QUEUE_SETTINGS, Layer, layer, of_queue, queue_fields, resolve
from .task import AnyTask


class Registry:
    """The tasks and queues of one app."""

    def __init__(self, client: Client, app_layer: Layer, version: int) -> None:
        self.client = client
        self.hooks: Hooks = client.hooks
        client.producers.check = self._check_key
        self.version = check_version(version)
        self.tasks: dict[str, AnyTask] = {}
        self.queues: dict[str, QueueDeclaration] = {}
        self.schedules: dict[tuple[str, str], Plan] = {}
        self.middleware: list[Middleware] = []
        self.fail_handlers: set[str] = set()
        self._rated: dict[str, str] = {}
        """Queues of a task that has a rate of its own, and that task."""
        self.resources: list[Resource[Any]] = []
        self.changes = 0
        """How often anything was declared."""
        self.bells: set[Callable[[], None]] = set()
        """Called when something was declared; each worker that runs has one."""
        self.app: Openable | None = None
        self.around: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
        self.app_layer = app_layer
        check_layer(self, "Holdfast()", app_layer)

    # --- declaring

    def _changed(self) -> None:
        self.changes += 1
        for ring in list(self.bells):
            ring()

    def add(self, task: AnyTask, rate: Rate | None = None) -> None:
        """The task can be enqueued and run. A rate of its own is that of a queue in which it is alone."""
        if task.name in self.tasks:
            raise ConfigError(f"there is a task named {task.name!r} already; give one of them name=...")
        check_task(self, task)
        self._refuse_company(task, rate)
        if rate is not None:
            self.declare(task.queue, None, None, None, {"rate": rate})
            self._rated[task.queue] = task.name
        self.tasks[task.name] = task
        self.queue(task.queue)
        self._note_fail_handler(task.layer)
        self._changed()

    def _refuse_company(self, task: AnyTask, rate: Rate | None) -> None:
        """Raise when a task with a rate of its own would share its queue."""
        there = [each.name for each in self.tasks.values() if each.queue == task.queue]
        rated = task.name if rate is not None else self._rated.get(task.queue)
        if there and rated is not None:
            raise ConfigError(
                f"task {task.name!r}: queue {task.queue!r} has task {there[0]!r} already, and {rated!r} has a rate=, "
                "which is that of a whole queue: give each a queue of its own, or both one rate by app.queue(rate=...)"
            )

    def declare(
        self, name: str, handler: PlainHandler | None, payload: Hint, result: Hint, options: QueueOptions
    ) -> None:
        """The queue is known, with what is said of it, besides what was said before."""
        own, settings = of_queue(_known(options))
        check_queue_name(name)
        check_handler(handler, name)
        before, fields = self.queues.get(name), queue_fields(settings)
        if handler is None and payload is None and result is None and not own.values and not fields:
            self._name(name)
            return
        known = before or QueueDeclaration(name)
        merged = layer("queue", **{**known.layer.values, **own.values})
        check_layer(self, f"queue {name!r}", merged)
        self.queues[name] = QueueDeclaration(
            name=name,
            handler=known.handler if handler is None else handler,
            payload=known.payload if payload is None else payload,
            result=known.result if result is None else result,
            layer=merged,
            settings={**known.settings, **fields},
        )
        try:
            self._check_plain(self.queues[name])
        except ConfigError:
            self.queues.pop(name) if before is None else self.queues.update({name: before})
            raise
        self._note_fail_handler(own)
        self._changed()

    def _name(self, name: str) -> None:
        """Workers that start later serve the queue; while one runs, a name is a question and declares nothing."""
        if not self.bells:
            self.queue(name)

    def _check_plain(self, declared: QueueDeclaration) -> None:
        """A function can be what its queue says; what an import path names, a worker sees when it starts."""
        if declared.handler is not None and not isinstance(declared.handler, str):
            check_task(self, self._plain(declared))

    def _note_fail_handler(self, own: Layer) -> None:
        if (handler := own.values.get("on_failure")) is not None:
            self.fail_handlers.add(handler.name)

    def queue(self, name: str) -> QueueDeclaration:
        """Return what is said of a queue, which is known from now on."""
        check_queue_name(name)
        return self.queues.setdefault(name, QueueDeclaration(name))

    # --- settings

    def key_required(self, queue: str) -> bool:
        """Return whether the plain jobs of a queue must have a key."""
        required: bool = resolve("key_required", self.layers(queue)).value
        return required

    def _check_key(self, queue: str, job: NewJob) -> None:
        """Refuse a job to which producer middleware gave no key, where it must have one."""
        if job.key is not None:
            return
        task = self.tasks.get(job.task) if job.task is not None else None
        if task.key_required if task is not None else self.key_required(queue):
            refuse_keyless(f"task {job.task!r}" if task is not None else f"queue {queue!r}")

    def layers(self, queue: str) -> tuple[Layer, ...]:
        """Return where a queue's settings come from, nearest first."""
        declared = self.queues.get(queue)
        return (declared.layer, self.app_layer) if declared else (self.app_layer,)

    def codec(self, choice: str | Codec, name: str = "codec") -> Codec:
        """Return a codec by name, or the one given; `name` is what a message calls the setting."""
        try:
            return find_codec(choice)
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from None

    def policy(self, task: AnyTask) -> Policy:
        """Return what a worker declares of a task."""
        retry = resolve("retry", task.layers)
        if retry.source == "library" and task.name in self.fail_handlers:
            retry = msgspec.structs.replace(retry, value=FAIL_HANDLER_RETRY)
        timeout, on_failure = task.setting("timeout"), self.on_failure(task)
        return Policy(
            retry=msgspec.structs.replace(retry.value, permanent=()),  # which no store could judge
            timeout_ms=None if timeout is None else to_ms(timeout, "timeout"),
            size=task.size,
            on_failure=(on_failure.queue, on_failure.name) if on_failure is not None else None,
            on_failure_priority=None if on_failure is None else _own_priority(on_failure),
        )

    def on_failure(self, task: AnyTask) -> AnyTask | None:
        """Return the fail handler of a task. One that is a fail handler has its own alone, or it would never end."""
        won = resolve("on_failure", task.layers)
        inherited = won.source != "task" and task.name in self.fail_handlers
        handler: AnyTask | None = None if inherited else won.value
        return handler

    def is_plain(self, task: AnyTask) -> bool:
        """Return whether it is the handler of a plain queue."""
        declared = self.queues.get(task.queue)
        return declared is not None and declared.runner is task

    def declarations(self, queues: tuple[str, ...], *, overrules: bool = False) -> list[Declaration]:
        """Return what a worker declares of the queues that it serves; `overrules`: whatever the same version says."""
        return [
            Declaration(
                queue=name,
                version=self.version,
                settings=self._queue_settings(name),
                partial=not (name in self.queues and self.queues[name].settings),
                tasks=self._policies(name),
                overrules=overrules,
            )
            for name in queues
        ]

    def _policies(self, queue: str) -> dict[str, Policy]:
        """Return the policy of each task of a queue, and under "" that of its plain jobs, where it has a handler."""
        found = {task.name: self.policy(task) for task in list(self.tasks.values()) if task.queue == queue}
        declared = self.queues.get(queue)
        if declared and declared.handler:
            found[""] = self.policy(self._plain(declared))
        return found

    def _queue_settings(self, name: str) -> Settings:
        """A queue's own settings; the app's result TTL where the queue has none."""
        known = self.queues.get(name)
        declared = known.settings if known else {}
        ttl = resolve("result_ttl", self.layers(name))
        if ttl.source != "library" and "result_ttl_ms" not in declared:
            return {**declared, "result_ttl_ms": ttl_ms(ttl.value, "result_ttl")}
        return declared

    def add_schedule(self, queue: str, name: str, plan: Plan) -> None:
        """Workers of the queue declare the schedule when they start."""
        if (queue, name) in self.schedules:
            raise ConfigError(f"there is a schedule named {name!r} in queue {queue!r} already; give one another name")
        self.schedules[queue, name] = plan
        self.queue(queue)
        self._changed()

    def explain(self, task: AnyTask, error: TypeError) -> None:
        """Add to the error of a call which of its arguments look as if they were to be filled in by a resource."""
        given = {each.gives: each.__name__ for each in self.resources if is_foreign(each.gives)}
        for name, kind in task.signature.type.__annotations__.items():
            if isinstance(kind, type) and kind in given and re.search(rf"\b{name}\b", str(error)):
                how = f"{name}: {kind.__name__} = Depends({given[kind]})"
                error.add_note(
                    f"{name!r} is what the resource {given[kind]!r} gives: to have it filled in, write {how}"
                )

    def decoder(self, queue: str, task: str | None) -> Callable[[bytes], Any]:
        """Return what reads the results of a task, or of a queue's plain jobs."""
        if task is not None and task in self.tasks:
            return self.tasks[task].decode_result
        return functools.partial(self.decode_plain, queue)

    def plain_types(self, queue: str) -> tuple[Hint, Hint]:
        """Return the types of a queue's plain payloads and of their results, as far as this app says."""
        declared = self.queues.get(queue)
        return (Any, Any) if declared is None else declared.types

    # --- running

    def runners(self, queue: str) -> list[AnyTask]:
        """Return everything that may run a job of a queue."""
        found = [task for task in list(self.tasks.values()) if task.queue == queue]
        declared = self.queues.get(queue)
        if declared and declared.handler:
            found.append(self._plain(declared))
        return found

    def known(self, queues: Iterable[str]) -> tuple[str, ...]:
        """Return what a worker of these queues can run: tasks by name, and `queue:` for jobs that have none."""
        plain = [f"{name}:" for name in queues if name in self.queues and self.queues[name].handler]
        return (*self.tasks, *plain)

    def handler(self, queue: str, task: str | None) -> AnyTask | None:
        """Return what runs a job: its task, or the handler that this worker's queue names."""
        if task is not None:
            return self.tasks.get(task)
        declared = self.queues.get(queue)
        return self._plain(declared) if declared and declared.handler else None

    def encode_result(self, queue: str, task: str | None, result: object) -> bytes:
        """Return a result as a job's handler would have it stored; by the queue's codec where it is not known here."""
        handler = self.handler(queue, task)
        if handler is not None:
            return handler.encode_result(result)
        kind = Any if task is not None else self.plain_types(queue)[1]
        data = self._result_codec(queue).encode(result, kind, path="result")
        return fit_result(data, resolve("max_result", self.layers(queue)).value, f"queue {queue!r}")

    def decode_result(self, queue: str, task: str | None, data: bytes) -> Any:
        """Return a stored result, decoded as the handler that gave it says, where it is known here."""
        handler = self.handler(queue, task)
        return handler.decode_result(data) if handler is not None else self.decode_plain(queue, data)

    def decode_plain(self, queue: str, data: bytes) -> Any:
        """Return the stored result of a queue's plain job, of the type that this app says."""
        return self._result_codec(queue).decode(data, self.plain_types(queue)[1])

    def blocker(self, record: BlockerRecord) -> Blocker:
        """Return what a job waited for, decoded as the task that gave the result says, where it is known here."""
        ref, queue = record.ref, record.queue or record.ref.queue
        result = None if record.result is None else self.decode_result(queue, record.task, record.result)
        return Blocker(
            queue=ref.queue, id=ref.id, run=ref.run, state=record.state or State.CANCELLED, result=result,
            error=record.error,
        )  # fmt: skip

    def _result_codec(self, queue: str) -> Codec:
        return self.codec(resolve("result_codec", self.layers(queue)).value)

    def _plain(self, declared: QueueDeclaration) -> AnyTask:
        """Return a plain queue's handler as a task."""
        if declared.runner is None:
            declared.runner = runner_of(self, declared)
        return declared.runner


def _known(options: QueueOptions) -> QueueOptions:
    """Return the options of a queue, or raise for the first of them that is none."""
    for name in options:
        if name not in QueueOptions.__annotations__:
            others = [each for each in QueueOptions.__annotations__ if each not in QUEUE_SETTINGS]
            known = ", ".join((*QUEUE_SETTINGS, *others))
            raise ConfigError(f"{name!r} is not a setting of a queue; known are {known}")
    return options


def _own_priority(task: AnyTask) -> int | None:
    """Return the priority that a task, its queue or its app says; `None` where none of them does."""
    priority = resolve("priority", task.layers)
    return None if priority.source == "library" else int(priority.value)


def check_queue_name(name: str) -> str:
    """Return the name, or raise when no queue can have it."""
    if (
        not isinstance(name, str)
        or not 0 < len(name.encode("utf-8", "replace")) <= MOST_NAME_BYTES
        or not _is_text(name)
    ):
        raise ConfigError(f"queue {name!r}: a queue's name has 1 to {MOST_NAME_BYTES} bytes")
    if "\0" in name:
        raise ConfigError(f"queue {name!r}: it holds a NUL character, which not every store can keep")
    return name


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
