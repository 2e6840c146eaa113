"""What code declares and operators set of a queue and its tasks: decided here, once, for every store.

A store reads a `View` of what it keeps, asks `declare`, `configure`, `adjust` or `limit_key` for the `Change`, and
applies that in the same step. The view that the change holds has the answer: the settings and policies in force.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ..errors import ConfigError, PolicyConflict
from . import action
from .action import Action
from .bound import ALL_WORKERS, LARGEST_NUMBER
from .limit import LIVE_SETTINGS, QueueSettings
from .policy import ADJUSTABLE, Policy, adjusted

MOST_SHOWN = 80
_ABSENT = object()
_DEFAULT = Policy()

Settings = dict[str, object]
"""Some fields of `QueueSettings`, or of what an operator may set of a task, by name, as JSON has them."""


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of a queue and its tasks when it starts."""

    queue: str
    version: int = 0
    settings: Settings = {}
    """The fields of `QueueSettings` that the code sets; the rest keep the library's defaults."""
    partial: bool = False
    """The code does not name the queue: what others have set of it stays, but for these settings."""
    tasks: dict[str, Policy] = {}
    overrules: bool = False
    """It takes the place of other values under the same version, too: the code that was started last is right."""


class DeclaredTask(msgspec.Struct, frozen=True):
    """What workers declared of a task, with the version of their app."""

    version: int
    policy: Policy


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of a queue: its settings and its tasks' policies, as declared and as operators set them."""

    queue: str
    version: int = 0
    declared: Settings = {}
    operator: Settings = {}
    tasks: dict[str, DeclaredTask] = {}
    adjusted: dict[str, Settings] = {}

    def settings(self) -> QueueSettings:
        """Return the settings in force."""
        return msgspec.convert({**self.declared, **self.operator}, QueueSettings)

    def policy(self, task: str) -> Policy:
        """Return the policy in force of a task."""
        known = self.tasks.get(task)
        return adjusted(known.policy if known else _DEFAULT, self.adjusted.get(task, {}))

    def policies(self) -> dict[str, Policy]:
        """Return the policy in force of every task."""
        return {task: self.policy(task) for task in {**self.tasks, **self.adjusted}}


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What a store is to write, and what follows from it. It is false when nothing is to be written."""

    view: View
    """What is stored afterwards."""
    queue: bool = False
    """Write the queue's version and its settings."""
    tasks: tuple[str, ...] = ()
    """Write what the view has of these tasks; remove what it does not have."""
    key: str | None = None
    """Write the limit of this key …"""
    key_concurrency: int | None = None
    """… which is this; `None` removes it."""
    recheck: bool = False
    """Look again which keys may start a job: the one above, or all of the queue."""
    wake: int = 0
    """Wake workers for so many jobs."""
    action: Action | None = None
    """What the log says of it."""

    def __bool__(self) -> bool:
        return self.queue or bool(self.tasks) or self.key is not None


def declare(view: View, declaration: Declaration) -> Change:
    """Put in force what a worker declares, unless a higher version is there already.

    Raise `PolicyConflict` when the same version is there with other values.
    """
    msgspec.convert(declaration.settings, QueueSettings)
    what = f"queue {view.queue!r}"
    settings = _declared_settings(what, view, declaration)
    tasks = {
        task: DeclaredTask(declaration.version, policy)
        for task, policy in declaration.tasks.items()
        if _is_news(f"task {task!r} of {what}", view.tasks.get(task), policy, declaration)
    }
    after = msgspec.structs.replace(view, tasks={**view.tasks, **tasks})
    if settings is not None:
        after = msgspec.structs.replace(after, version=declaration.version, declared=settings)
    changed = bool(tasks) or after.declared != view.declared
    return Change(
        view=after, queue=settings is not None, tasks=tuple(tasks), recheck=changed,
        wake=_room(after) if changed else 0, action=_redeclared(view, after, declaration.version),
    )  # fmt: skip


def configure(view: View, set: Mapping[str, object], clear: Sequence[str] = ()) -> Change:
    """Put an operator's settings in force above what workers declare; take the cleared ones away."""
    unknown = [name for name in (*set, *clear) if name not in LIVE_SETTINGS]
    if unknown:
        raise ConfigError(f"{unknown[0]!r} is not a setting of a queue; known are {', '.join(LIVE_SETTINGS)}")
    after = msgspec.structs.replace(view, operator=_above(view.operator, set, clear))
    try:
        wake = _room(after)
    except msgspec.ValidationError as error:
        raise ConfigError(f"queue {view.queue!r}: {error}") from None
    done = action.configured(set, clear)
    return Change(view=after, queue=True, recheck=_key_settings(view) != _key_settings(after), wake=wake, action=done)


def adjust(view: View, task: str, set: Mapping[str, object], clear: Sequence[str] = ()) -> Change:
    """Put an operator's settings of a task in force above what workers declare; take the cleared ones away."""
    if unknown := [name for name in clear if name not in ADJUSTABLE]:
        raise ConfigError(f"{unknown[0]!r} is not a setting of a task; known are {', '.join(ADJUSTABLE)}")
    operator = _above(view.adjusted.get(task, {}), set, clear)
    adjusted(_DEFAULT, operator)
    others = {name: known for name, known in view.adjusted.items() if name != task}
    after = msgspec.structs.replace(view, adjusted={**others, task: operator} if operator else others)
    return Change(view=after, tasks=(task,), action=action.adjusted(task, set, clear))


def limit_key(view: View, key: str, concurrency: int | None) -> Change:
    """Give one key a concurrency of its own; `None` takes it away."""
    if concurrency is not None and (type(concurrency) is not int or concurrency < 1):
        raise ConfigError(
            f"key {key!r}: concurrency={concurrency!r}: a whole number from 1, or None for the queue's own"
        )
    return Change(
        view=view, key=key, key_concurrency=concurrency, recheck=True, wake=concurrency or ALL_WORKERS,
        action=action.key_limited(key, concurrency),
    )  # fmt: skip


def check_version(version: object) -> int:
    """Return the version of an app's declarations, or raise when it cannot be one."""
    if type(version) is not int or not 0 <= version < LARGEST_NUMBER:
        raise ConfigError(f"version={version!r}: a whole number from 0 on, higher with each change of what is declared")
    return version


def wins(
    what: str, stored: object, stored_version: int, wanted: object, version: int, *, overrules: bool = False
) -> bool:
    """Return whether a declaration with another value than the stored one (`None`: there is none) takes its place."""
    if stored is not None and version == stored_version and not overrules:
        raise PolicyConflict(
            f"{what} was declared before with version {version} and other values ({differences(stored, wanted)}): "
            f"raise the version of the app whose values shall hold (Holdfast(..., version={version + 1})), or give "
            "both the same values; `holdfast declare MODULE:APP --force` puts those of this code in force, and in "
            "development HOLDFAST_DEVELOPMENT=1 does so at each start"
        )
    return version >= stored_version


def differences(stored: object, wanted: object) -> str:
    """Return where two declarations differ, with both values: `concurrency is 5 in the store, and 9 here`."""
    before, after = _flat(msgspec.to_builtins(stored)), _flat(msgspec.to_builtins(wanted))
    names = [name for name in {**before, **after} if before.get(name, _ABSENT) != after.get(name, _ABSENT)]
    return "; ".join(f"{name} is {_shown(before, name)} in the store, and {_shown(after, name)} here" for name in names)


def _declared_settings(what: str, view: View, declaration: Declaration) -> Settings | None:
    """Return the settings to be written with this version, or `None` where nothing is."""
    stored, version, partial = view.declared, declaration.version, declaration.partial
    given = declaration.settings
    wanted: Settings = msgspec.to_builtins({**stored, **given} if partial else given)
    if wanted == stored:
        return wanted if version > view.version and not partial else None
    if partial and version == view.version and all(wanted[name] == stored[name] for name in stored):
        return wanted if not stored else None  # the app that names the queue in this version decides about the rest
    won = wins(what, stored or None, view.version, wanted, version, overrules=declaration.overrules)
    return wanted if won else None


def _is_news(what: str, stored: DeclaredTask | None, policy: Policy, declaration: Declaration) -> bool:
    """Return whether a task's policy is to be written. Policies are compared by meaning, not as they are written."""
    if stored is None:
        return True
    if stored.policy == policy:
        return declaration.version > stored.version
    return wins(what, stored.policy, stored.version, policy, declaration.version, overrules=declaration.overrules)


def _redeclared(before: View, after: View, version: int) -> Action | None:
    """Return what the log says of a declaration; nothing where it changed no value that was declared before."""
    settings = bool(before.declared) and before.declared != after.declared
    tasks = sorted(task for task, known in before.tasks.items() if after.tasks[task].policy != known.policy)
    return action.declared(version, settings, tasks) if settings or tasks else None


def _above(stored: Mapping[str, object], set: Mapping[str, object], clear: Sequence[str]) -> Settings:
    above: Settings = msgspec.to_builtins({**stored, **set})
    return {name: value for name, value in above.items() if name not in clear}


def _key_settings(view: View) -> tuple[object, object]:
    merged = {**view.declared, **view.operator}
    return merged.get("key_concurrency"), merged.get("key_rate")


def _room(view: View) -> int:
    return view.settings().concurrency or ALL_WORKERS


def _shown(values: Mapping[str, object], name: str) -> str:
    text = repr(values[name]) if name in values else "not set"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def _flat(value: object, prefix: str = "") -> Settings:
    if not isinstance(value, Mapping):
        return {prefix: value}
    found: Settings = {}
    for name, child in value.items():
        found |= _flat(child, f"{prefix}.{name}" if prefix else str(name))
    return found
