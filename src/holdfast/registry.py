"""What an app knows: its tasks, its queues, and what they say of their settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any, get_args

import msgspec

from .client import Client, transactional
from .codec import Codec, Signature
from .codec import codec as find_codec
from .continuation import Blocker
from .core.declaration import check_version
from .core.duration import to_ms
from .core.limit import check_priority
from .core.policy import FAIL_HANDLER_RETRY, Policy, Retry
from .core.sandbox import Sandbox
from .core.schedule import Plan
from .core.size import check_size, fit_result
from .core.state import State
from .errors import ConfigError
from .hook import Hooks
from .job import Job
from .resource import Resource
from .settings import Layer, resolve
from .store.contract import BlockerRecord, Declaration
from .sync import Openable
from .task import WHOLE, Executor, Task

Next = Callable[[], Awaitable[Any]]
Middleware = Callable[[Job, Next], Awaitable[Any]]


SIZES = ("max_payload", "max_result")


class QueueDeclaration(msgspec.Struct):
    """What the code says of a queue."""

    name: str
    handler: str | None = None
    layer: Layer | None = None
    settings: dict[str, Any] = {}


class Registry:
    """The tasks and queues of one app."""

    def __init__(self, client: Client, app_layer: Layer, version: int) -> None:
        self.client = client
        self.hooks: Hooks = client.hooks
        self.version = check_version(version)
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.queues: dict[str, QueueDeclaration] = {}
        self.schedules: dict[tuple[str, str], Plan] = {}
        self.middleware: list[Middleware] = []
        self.fail_handlers: set[str] = set()
        self.resources: list[Resource[Any]] = []
        self.app: Openable | None = None
        self.check_layer("Holdfast()", app_layer)
        self._app_layer = app_layer
        self._ttl: dict[str, int | None] = {}
        self._priority: dict[str, int] = {}

    # --- declaring

    def add(self, task: Task[Any, Any]) -> None:
        """The task can be enqueued and run."""
        if task.name in self.tasks:
            raise ConfigError(f"there is a task named {task.name!r} already; give one of them name=...")
        self.check(task)
        self.tasks[task.name] = task
        self.queue(task.queue)

    def check(self, task: Task[Any, Any]) -> None:
        """Every setting of a task is one that it can have."""
        retry, timeout = task.setting("retry"), task.setting("timeout")
        if not isinstance(retry, Retry):
            raise ConfigError(f"task {task.name!r}: retry={retry!r}: give Retry(failures=...)")
        if timeout is not None and to_ms(timeout, f"task {task.name!r}: timeout") == 0:
            raise ConfigError(f"task {task.name!r}: timeout=0 leaves no time to run; None is no time-out")
        check_priority(task.setting("priority"))
        to_ms(task.setting("result_ttl"), f"task {task.name!r}: result_ttl")
        self._check_executor(task)
        if task.setting("on_failure") is not None:
            self._check_fail_handler(task, task.setting("on_failure"))
        self._check_completion(task)
        for name in SIZES:
            check_size(task.setting(name), f"task {task.name!r}: {name}")
        for name in ("codec", "result_codec"):
            self.codec(task.setting(name), f"task {task.name!r}: {name}")

    def _check_executor(self, task: Task[Any, Any]) -> None:
        """Size and permissions belong to processes, and a process must be able to import its handler."""
        what, executor, size = f"task {task.name!r}", task.setting("executor"), task.setting("size")
        _check_known(what, executor)
        sandbox = task.setting("sandbox")
        if size is not None and (type(size) is not int or not 1 <= size <= WHOLE):
            raise ConfigError(f"{what}: size={size!r}: units of a process, a whole number from 1 to {WHOLE}")
        if size is not None and executor != "process":
            raise ConfigError(f"{what}: size={size!r} is for executor='process'; others take a slot or a sandbox")
        if sandbox is not None and not isinstance(sandbox, Sandbox):
            raise ConfigError(f"{what}: sandbox={sandbox!r}: give Sandbox(read=[...], ...)")
        if (sandbox is not None) != (executor == "sandbox"):
            raise ConfigError(f"{what}: executor='sandbox' and sandbox=Sandbox(...) belong together; give both or none")
        if executor in ("process", "sandbox") and "<" in getattr(task.fn, "__qualname__", "<"):
            raise ConfigError(
                f"{what}: executor={executor!r} needs a function of a module, which its process can import; "
                f"{task.fn!r} is local"
            )

    def _check_fail_handler(self, task: Task[Any, Any], handler: Any) -> None:
        """A fail handler is called with the payload of the job that failed, so it must be able to take it."""
        what = f"task {task.name!r}: on_failure="
        if not isinstance(handler, Task):
            raise ConfigError(f"{what}{handler!r}: give a task of this app")
        if misfit := handler.signature.misfit(task.signature):
            raise ConfigError(
                f"{what}{handler.name}: a fail handler is given the arguments of the job that failed, and {misfit}; "
                "give it the same parameters (and job: Job, whose job.failed tells the rest)"
            )
        if self.codec(handler.setting("codec")) is not self.codec(task.setting("codec")):
            raise ConfigError(f"{what}{handler.name}: its codec is another, so that it could not read the payload")

    def _check_completion(self, task: Task[Any, Any]) -> None:
        """A task says how it completes only where it can write in the transaction of its completion."""
        if "completion" not in task.layer.values:
            return
        completion, what = task.setting("completion"), f"task {task.name!r}: completion="
        if completion not in ("staged", "atomic"):
            raise ConfigError(f"{what}{completion!r}: 'staged' or 'atomic'")
        store = transactional(self.client.store, f"{what}{completion!r}")
        if completion == "atomic" and not store.atomic:
            raise ConfigError(f"{what}'atomic': SQLite has one writer, who would wait for the handler; use 'staged'")
        if task.runs_in != "inline":
            raise ConfigError(f"{what}{completion!r} needs an `async def` handler with executor='inline'")

    def check_layer(self, what: str, own: Layer) -> None:
        """Every setting that a queue or an app has for its jobs is one that they can have."""
        retry, timeout = own.values.get("retry"), own.values.get("timeout")
        _check_known(what, own.values.get("executor"))
        if retry is not None and not isinstance(retry, Retry):
            raise ConfigError(f"{what}: retry={retry!r}: give Retry(failures=...)")
        if timeout is not None and to_ms(timeout, f"{what}: timeout") == 0:
            raise ConfigError(f"{what}: timeout=0 leaves no time to run; None is no time-out")
        if "result_ttl" in own.values:
            to_ms(own.values["result_ttl"], f"{what}: result_ttl")
        for name in SIZES:
            if name in own.values:
                check_size(own.values[name], f"{what}: {name}")
        for name in ("codec", "result_codec"):
            if name in own.values:
                self.codec(own.values[name], f"{what}: {name}")

    def queue(self, name: str) -> QueueDeclaration:
        """Return what is said of a queue, which is known from now on."""
        check_queue_name(name)
        return self.queues.setdefault(name, QueueDeclaration(name))

    # --- settings

    def layers(self, queue: str) -> tuple[Layer, ...]:
        """Return where a queue's settings come from, nearest first."""
        declared = self.queues.get(queue)
        return (declared.layer, self._app_layer) if declared and declared.layer else (self._app_layer,)

    def codec(self, choice: Any, name: str = "codec") -> Codec:
        """Return a codec by name, or the one given; `name` is what a message calls the setting."""
        try:
            return find_codec(choice)
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from None

    def task_ttl_ms(self, task: Task[Any, Any]) -> int | None:
        """Return the result TTL that the task itself sets; a queue's is the store's to know."""
        if task.name not in self._ttl:
            own = task.layer.values.get("result_ttl")
            self._ttl[task.name] = None if own is None else to_ms(own, "result_ttl")
        return self._ttl[task.name]

    def task_priority(self, task: Task[Any, Any]) -> int:
        """Return the priority of the task's jobs."""
        if task.name not in self._priority:
            self._priority[task.name] = task.setting("priority")
        return self._priority[task.name]

    def policy(self, task: Task[Any, Any]) -> Policy:
        """Return what a worker declares of a task."""
        retry = resolve("retry", task.layers)
        if retry.source == "library" and task.name in self.fail_handlers:
            retry = msgspec.structs.replace(retry, value=FAIL_HANDLER_RETRY)
        timeout, on_failure = task.setting("timeout"), task.setting("on_failure")
        return Policy(
            retry=msgspec.structs.replace(retry.value, permanent=()),  # which no store could judge
            timeout_ms=None if timeout is None else to_ms(timeout, "timeout"),
            size=task.size,
            on_failure=(on_failure.queue, on_failure.name) if on_failure is not None else None,
        )

    def declarations(self, queues: tuple[str, ...]) -> list[Declaration]:
        """Return what a worker declares of the queues that it serves."""
        return [
            Declaration(
                queue=name,
                version=self.version,
                settings=self._queue_settings(name),
                partial=not (name in self.queues and self.queues[name].settings),
                tasks=self._policies(name),
            )
            for name in queues
        ]

    def _policies(self, queue: str) -> dict[str, Policy]:
        """Return the policy of each task of a queue, and under "" that of its plain jobs, where it has a handler."""
        found = {task.name: self.policy(task) for task in self.tasks.values() if task.queue == queue}
        declared = self.queues.get(queue)
        if declared and declared.handler:
            plain = self._plain(declared)
            found.pop(plain.name, None)
            found[""] = self.policy(plain)
        return found

    def _queue_settings(self, name: str) -> dict[str, Any]:
        """A queue's own settings; the app's result TTL where the queue has none."""
        known = self.queues.get(name)
        declared = known.settings if known else {}
        ttl = resolve("result_ttl", self.layers(name))
        if ttl.source != "library" and "result_ttl_ms" not in declared:
            return {**declared, "result_ttl_ms": to_ms(ttl.value, "result_ttl")}
        return declared

    def add_schedule(self, queue: str, name: str, plan: Plan) -> None:
        """Workers of the queue declare the schedule when they start."""
        if (queue, name) in self.schedules:
            raise ConfigError(f"there is a schedule named {name!r} in queue {queue!r} already; give one another name")
        self.schedules[queue, name] = plan
        self.queue(queue)

    def decoder(self, queue: str, task: str | None) -> Callable[[bytes], Any]:
        """Return what reads the results of a task, or of a queue's plain jobs."""
        if task is not None and task in self.tasks:
            return self.tasks[task].decode_result
        return self.codec(resolve("result_codec", self.layers(queue)).value).decode

    # --- running

    def runners(self, queue: str) -> list[Task[Any, Any]]:
        """Return everything that may run a job of a queue."""
        found = [task for task in self.tasks.values() if task.queue == queue]
        declared = self.queues.get(queue)
        if declared and declared.handler and f"{queue}:{declared.handler}" not in self.tasks:
            found.append(self._plain(declared))
        return found

    def handler(self, queue: str, task: str | None) -> Task[Any, Any] | None:
        """Return what runs a job: its task, or the handler that this worker's queue names."""
        if task is not None:
            return self.tasks.get(task)
        declared = self.queues.get(queue)
        return self._plain(declared) if declared and declared.handler else None

    def encode_result(self, queue: str, task: str | None, result: Any) -> bytes:
        """Return a result as a job's handler would have it stored; by the queue's codec where it is not known here."""
        handler = self.handler(queue, task)
        if handler is not None:
            return handler.encode_result(result)
        data = self._result_codec(queue).encode(result, Any, path="result")
        return fit_result(data, resolve("max_result", self.layers(queue)).value, f"queue {queue!r}")

    def decode_result(self, queue: str, task: str | None, data: bytes) -> Any:
        """Return a stored result, decoded as the task that gave it says, where it is known here."""
        handler = self.handler(queue, task)
        return handler.decode_result(data) if handler is not None else self._result_codec(queue).decode(data)

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

    def _plain(self, declared: QueueDeclaration) -> Task[Any, Any]:
        """A plain queue's handler as a task. The path is this worker's configuration, never the job's."""
        name = f"{declared.name}:{declared.handler}"
        if name not in self.tasks:
            assert declared.handler is not None
            fn = load(declared.handler)
            if not callable(fn):
                raise ConfigError(f"{declared.handler!r} is no function but a {type(fn).__name__}")
            wanted = Signature.of(fn, inject=(Job,))
            self.tasks[name] = Task(self, fn, name, declared.name, Layer("task", {}), wanted)
        return self.tasks[name]


def _check_known(what: str, executor: object) -> None:
    if executor not in (None, *get_args(Executor)):
        raise ConfigError(f"{what}: executor={executor!r}: one of {', '.join(map(repr, get_args(Executor)))}")


def check_queue_name(name: str) -> str:
    """Return the name, or raise when no queue can have it."""
    if not isinstance(name, str) or not 0 < len(name.encode("utf-8", "replace")) <= 255 or not _is_text(name):
        raise ConfigError(f"queue {name!r}: a queue's name has 1 to 255 bytes")
    if "\0" in name:
        raise ConfigError(f"queue {name!r}: it holds a NUL character, which not every store can keep")
    return name


def check_path(path: object, name: str = "") -> tuple[str, str]:
    """Return the module and the name of an import path, or raise when it is none; `name` is the option's."""
    module, _, found = path.partition(":") if isinstance(path, str) else ("", "", "")
    if not module or not found or not all(part.isidentifier() for part in (*module.split("."), *found.split("."))):
        raise ConfigError(f"{name + '=' if name else ''}{path!r} is no import path; write package.module:name")
    return module, found


def load(path: str) -> Any:
    """Return the object that `package.module:name` names."""
    module, name = check_path(path)
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except ImportError as error:
        raise ConfigError(f"{path!r} cannot be imported: {error}") from error
    except AttributeError:
        raise ConfigError(f"{path!r}: the module {module} has no {name}") from None
    except Exception as error:
        raise ConfigError(f"{path!r} cannot be imported: {type(error).__name__}: {error}") from error
    return found


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
