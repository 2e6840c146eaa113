"""What tasks, queues and apps say of jobs is checked when they say it, and refused by name."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, get_args

from ..client import transactional
from ..core.duration import lease_ms, to_ms, ttl_ms
from ..core.limit import check_count, check_priority
from ..core.policy import Retry
from ..core.sandbox import Sandbox
from ..core.size import check_size
from ..errors import ConfigError
from .options import Executor
from .resource import needed
from .settings import Layer, resolve, resolve_all
from .task import WHOLE, AnyTask, Task

if TYPE_CHECKING:
    from .registry import Registry


def check_task(registry: Registry, task: AnyTask) -> None:
    """Every setting of a task is one that it can have."""
    what = f"task {task.name!r}"
    _check_each(registry, what, {won.name: won.value for won in resolve_all(task.layers)})
    check_priority(task.setting("priority"))
    _check_executor(what, task)
    if (handler := registry.on_failure(task)) is not None:
        _check_fail_handler(registry, task, handler)
    _check_completion(registry, task)
    _check_resources(registry, what, task)


def check_layer(registry: Registry, what: str, own: Layer) -> None:
    """Every setting that a queue or an app has for its jobs is one that they can have."""
    _check_each(registry, what, own.values)
    if "completion" in own.values:
        _check_transactions(registry, own.values["completion"], f"{what}: completion=")
    executor = resolve("executor", (own, registry.app_layer)).value
    if "sandbox" in own.values and executor != "sandbox":
        raise ConfigError(f"{what}: executor='sandbox' and sandbox=Sandbox(...) belong together; give both or none")


def _check_each(registry: Registry, what: str, values: dict[str, Any]) -> None:
    """Each of these settings has a value that it can have."""
    retry, timeout, sandbox = (values.get(name) for name in ("retry", "timeout", "sandbox"))
    if retry is not None and not isinstance(retry, Retry):
        raise ConfigError(f"{what}: retry={retry!r}: give Retry(failures=...)")
    if timeout is not None and to_ms(timeout, f"{what}: timeout") == 0:
        raise ConfigError(f"{what}: timeout=0 leaves no time to run; None is no time-out")
    if values.get("lease") is not None:
        lease_ms(values["lease"], f"{what}: lease")
    if "result_ttl" in values:
        ttl_ms(values["result_ttl"], f"{what}: result_ttl")
    for name in ("max_payload", "max_result"):
        if name in values:
            check_size(values[name], f"{what}: {name}")
    for name in ("codec", "result_codec"):
        if name in values:
            registry.codec(values[name], f"{what}: {name}")
    if values.get("executor") not in (None, *get_args(Executor)):
        known = ", ".join(map(repr, get_args(Executor)))
        raise ConfigError(f"{what}: executor={values['executor']!r}: one of {known}")
    if values.get("size") is not None:
        check_count(values["size"], f"{what}: size")
    if sandbox is not None and not isinstance(sandbox, Sandbox):
        raise ConfigError(f"{what}: sandbox={sandbox!r}: give Sandbox(read=[...], ...)")
    if type(values.get("key_required", False)) is not bool:
        raise ConfigError(f"{what}: key_required={values['key_required']!r}: True or False")
    if (handler := values.get("on_failure")) is not None and not isinstance(handler, Task):
        raise ConfigError(f"{what}: on_failure={handler!r}: give a task of this app")


def _check_executor(what: str, task: AnyTask) -> None:
    """Sizes and permissions are what the executor can give, and a process must be able to import its handler."""
    executor, size, sandbox = (task.setting(name) for name in ("executor", "size", "sandbox"))
    if executor == "process" and task.size > WHOLE:
        raise ConfigError(f"{what}: size={size!r}: units of a process, a whole number from 1 to {WHOLE}")
    if executor == "sandbox" and size is not None:
        raise ConfigError(f"{what}: size={size!r} is not for executor='sandbox': each job there has a whole process")
    if (sandbox is not None) != (executor == "sandbox"):
        raise ConfigError(f"{what}: executor='sandbox' and sandbox=Sandbox(...) belong together; give both or none")
    if executor in ("process", "sandbox") and "<" in getattr(task.fn, "__qualname__", "<"):
        raise ConfigError(
            f"{what}: executor={executor!r} needs a function of a module, which its process can import; "
            f"{task.fn!r} is local"
        )


def _check_fail_handler(registry: Registry, task: AnyTask, handler: AnyTask) -> None:
    """A fail handler is called with the payload of the job that failed, so it must be able to take it."""
    what, plain = f"task {task.name!r}: on_failure={handler.name}", registry.is_plain(task)
    misfit = handler.signature.plain_misfit() if plain else handler.signature.misfit(task.signature)
    if misfit:
        raise ConfigError(
            f"{what}: a fail handler is given the arguments of the job that failed, and {misfit}; "
            "give it the same parameters (and job: Job, whose job.failed tells the rest)"
        )
    if registry.codec(handler.setting("codec")) is not registry.codec(task.setting("codec")):
        raise ConfigError(f"{what}: its codec is another, so that it could not read the payload")


def _check_completion(registry: Registry, task: AnyTask) -> None:
    """A task says how it completes only where it can write in the transaction of its completion."""
    if "completion" not in task.layer.values and not registry.is_plain(task):
        return
    won, what = resolve("completion", task.layers), f"task {task.name!r}: completion="
    if won.source == "library":
        return
    _check_transactions(registry, won.value, what)
    if task.runs_in == "sandbox":
        raise ConfigError(f"{what}{won.value!r}: a sandbox has no way to the store; use another executor")
    if task.runs_in == "inline" and not inspect.iscoroutinefunction(task.fn):
        raise ConfigError(
            f"{what}{won.value!r}: a `def` handler with executor='inline' would hold up the worker's event loop; leave "
            "it in its thread, or make it `async def`"
        )


def _check_resources(registry: Registry, what: str, task: AnyTask) -> None:
    """What a handler depends on is open where it runs."""
    for resource in needed(task.signature.supplied.values(), all_scopes=True):
        name, scope = resource.__name__, resource.scope
        if resource not in registry.resources:
            raise ConfigError(
                f"{what}: it depends on the resource {name!r} of another app, which its workers do not open: make it "
                "one of this app with @app.resource"
            )
        if task.runs_in == "sandbox" and scope != "attempt":
            raise ConfigError(
                f"{what}: it runs in a sandbox, where the resource {name!r} with scope={scope!r} is not open; one with "
                "scope='attempt' is opened inside, with the sandbox's permissions"
            )
        if task.runs_in == "process" and scope == "worker":
            raise ConfigError(
                f"{what}: it runs in a process, and the resource {name!r} with scope='worker' is open in the worker's "
                "own alone: give it scope='process', and each process has its own"
            )


def _check_transactions(registry: Registry, completion: object, what: str) -> None:
    """The store can complete jobs in this way."""
    if completion not in ("staged", "atomic"):
        raise ConfigError(f"{what}{completion!r}: 'staged' or 'atomic'")
    store = transactional(registry.client.store, f"{what}{completion!r}")
    if completion == "atomic" and not store.atomic:
        raise ConfigError(f"{what}'atomic': SQLite has one writer, who would wait for the handler; use 'staged'")
