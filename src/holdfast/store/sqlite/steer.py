"""cancel, promote, requeue, delete, and the settings that people and workers give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ...core.chain import OPEN, ChainRef
from ...core.declaration import declared_settings, wins
from ...core.limit import QueueSettings
from ...core.policy import ADJUSTABLE, Policy, adjusted
from ...core.state import State
from ...core.transition import Reply, judge
from ...errors import ConfigError
from ..contract import Abort, Cancelled, Declaration, Deleted, Filter, Running
from ..row import outcome
from . import blocker, chain, enqueue, lane, look, update
from .end import abort, cancelled
from .tx import Row, Tx

MANY = 1_000_000
"""More jobs than parked workers have room for: all of them are woken."""


def cancel(tx: Tx, queue: str, id: str, running: Running) -> Cancelled:
    """cancel: job and successor are over, or the active job is left or signalled."""
    row = answering(tx, queue, id)
    if row is None:
        return Cancelled(reply=judge("cancel", None))
    successor = _drop_successor(tx, row)
    if row["chain_state"] == OPEN:  # the current job of its chain is meant
        row = chain.current(tx, row)
    state = State(row["state"])
    if state is State.ACTIVE:
        signalled = running != "refuse"
        if signalled:
            _signal(tx, row, "killed" if running == "kill" else "cancelled")
        return Cancelled(
            reply=Reply.OK if signalled or successor else Reply.WRONG_STATE,
            state=state, run=row["run"], signalled=signalled, successor=successor,
        )  # fmt: skip
    reply = judge("cancel", state)
    if reply is Reply.OK:
        cancelled(tx, row, row["exit"] or "cancel", ran=False)
        lane.recheck_all(tx, row["queue"], {row["key"]})
    return Cancelled(reply=Reply.OK if successor else reply, state=state, run=row["run"], successor=successor)


def answering(tx: Tx, queue: str, id: str) -> Row | None:
    """Return the run that holds an id, or else its latest that is still kept."""
    return enqueue.holder(tx, queue, id) or tx.row("job", "latest", queue=queue, id=id, now=tx.now)


def _drop_successor(tx: Tx, row: Row, *, note: bool = True) -> bool:
    successor = tx.row("update", "successor", queue=row["queue"], id=row["id"])
    if successor is None:
        return False
    if note:
        ttl = tx.queue(row["queue"]).settings.result_ttl_ms
        tx.run("cancel", "bury", queue=row["queue"], id=row["id"], now=tx.now, queue_ttl=ttl)
        tx.append("cancel", [successor["run"]], cause="successor")
    tx.run("update", "drop_successor", queue=row["queue"], id=row["id"])
    blocker.report(tx, [successor["run"]], gone=True)
    tx.tell_watchers({**row, "run": successor["run"], "absorbed_to": None}, State.CANCELLED)
    return True


def _signal(tx: Tx, row: Row, reason: Abort) -> None:
    tx.run("cancel", "signal", run=row["run"])
    abort(tx, row, reason)


def promote(tx: Tx, queue: str, id: str) -> Reply:
    """promote: a scheduled job may be claimed now."""
    row = answering(tx, queue, id)
    reply = judge("promote", State(row["state"]) if row else None)
    if row is not None and reply is Reply.OK:
        tx.run("promote", "now", run=row["run"], now=tx.now)
        tx.append("promote", [row["run"]], cause="asked")
        lane.recheck_all(tx, queue, {row["key"]})
        tx.wake(queue, 1)
    return reply


def requeue(tx: Tx, which: Filter, limit: int, dry_run: bool) -> list[tuple[str, str, int]]:
    """requeue: finished jobs run anew, oldest first, each as a new run of its id."""
    if any(not state.finished for state in which.states):
        raise ConfigError("only finished jobs are requeued: completed, failed or cancelled ones")
    states = which.states or (State.FAILED,)
    found = look.rows(tx, msgspec.structs.replace(which, states=states), limit, None, requeued=False)
    done = []
    for row in reversed(found):
        holder = enqueue.holder(tx, row["queue"], row["id"])
        if (holder is not None and holder["run"] != row["run"]) or not chain.is_last(tx, row):
            continue
        done.append((row["queue"], row["id"], row["run"] if dry_run else _again(tx, row)))
    return done


def _again(tx: Tx, row: Row) -> int:
    run = tx.next_runs(1)
    tx.run("requeue", "mark", run=row["run"], requeued_as=run)
    values = (
        run, row["queue"], row["id"], "waiting", row["task"], row["priority"], row["key"], tx.now, tx.now, tx.now,
        row["result_ttl_ms"], row["dedup_key"], None, row["overrides"], row["headers"], row["payload"],
        row["chain"] if row["position"] else None, row["position"],
    )  # fmt: skip
    tx.run_many("enqueue", "insert", [values])
    if row["position"]:
        chain.reopen(tx, row, run)
    if row["blockers"] is not None:
        waits = blocker.again(tx, row["run"], run, row["on_blocker_failed"])
        enqueue.wait(tx, run, State.WAITING, waits, row["on_blocker_failed"])
    payload = tx.queue(row["queue"]).settings.history == "payloads"
    tx.append("requeue", [run], payload=payload)
    lane.recheck_all(tx, row["queue"], {row["key"]})
    tx.wake(row["queue"], 1)
    return run


def delete(tx: Tx, queue: str, id: str) -> Reply:
    """delete: the job is gone, in whatever state, and with a first job its chain; handlers are told to stop."""
    row = answering(tx, queue, id)
    reply = judge("delete", State(row["state"]) if row else None)
    if row is None or reply is not Reply.OK:
        return reply
    if not row["position"]:
        _remove_chain(tx, row)
        return reply
    first = chain.end(tx, row, State.CANCELLED)
    _remove(tx, row)
    if first is not None:
        update.succeed(tx, first)
        blocker.report(tx, [first["run"]])
        tx.tell_watchers(first, State.CANCELLED)
    return reply


def _remove_chain(tx: Tx, first: Row) -> None:
    """Every job of the chain is gone; whoever waits for it hears that it was cancelled."""
    blocker.report(tx, [first["run"]], gone=True)
    for row in tx.rows("chain", "members", run=first["run"]):
        _remove(tx, row)
    if outcome(first) is State.ACTIVE:
        _drop_successor(tx, first, note=False)


def _remove(tx: Tx, row: Row) -> None:
    runs = f"[{row['run']}]"
    tx.run("event", "append_gone", now=tx.now, transition="delete", cause=None, runs=runs)
    tx.run("delete", "remove", run=row["run"])
    tx.run("unblock", "remove", runs=runs)
    if row["state"] == "active":
        abort(tx, row, "deleted")
        tx.wake(row["queue"], 1)
    lane.recheck_all(tx, row["queue"], {row["key"]})
    tx.tell_watchers(row, State.CANCELLED)


def delete_chain(tx: Tx, queue: str, id: str, run: int | None, cascade: bool) -> Deleted:
    """delete: the chain is gone, and with `cascade` every chain that waits for it; else it must not be waited for."""
    first = chain.first_of(tx, queue, id, run)
    if first is None:
        return Deleted(reply=judge("delete", None))
    waiting = tx.rows("unblock", "dependants", run=first["run"])
    if waiting and not cascade:
        refs = tuple(ChainRef(row["queue"], row["id"], row["run"]) for row in waiting)
        return Deleted(reply=Reply.WRONG_STATE, waiting=refs)
    todo, gone = [first["run"]], 0
    while todo:
        row = tx.job(todo.pop())
        if row is None:
            continue
        todo += [each["chain"] or each["run"] for each in tx.rows("unblock", "dependants", run=row["run"])]
        _remove_chain(tx, row)
        gone += 1
    return Deleted(reply=Reply.OK, chains=gone)


def set_result_ttl(tx: Tx, queue: str, id: str, ttl_ms: int) -> Reply:
    """A finished job's result is kept for so long from now; an unfinished one's from its end."""
    row = enqueue.holder(tx, queue, id)
    if row is None:
        return Reply.MISSING
    retention = tx.queue(queue).settings.retention
    kept = retention.failed_ms if outcome(row) is State.FAILED else retention.completed_ms
    tx.run("job", "set_ttl", run=row["run"], now=tx.now, ttl=ttl_ms, kept=kept)
    return Reply.OK


def keep_runs(tx: Tx, queue: str, first: int, last: int, ttl_ms: int | None) -> None:
    """The results of these runs are kept for so long: from now, or from their end."""
    settings = tx.queue(queue).settings
    kept = settings.retention
    span = {"queue": queue, "first": first, "last": last, "ttl": ttl_ms}
    free_at = tx.now + (settings.result_ttl_ms if ttl_ms is None else ttl_ms)
    tx.run("job", "keep_unfinished", **span)  # two statements: this one touches no index
    tx.run("job", "keep_finished", **span, free_at=free_at, failed=kept.failed_ms, completed=kept.completed_ms)


def declare(tx: Tx, declarations: Sequence[Declaration]) -> None:
    """What workers say of queues and tasks holds, unless a higher version is there already."""
    for declaration in declarations:
        tx.queue(declaration.queue)
        changed = _declare_queue(tx, declaration)
        for task, policy in declaration.tasks.items():
            changed = _declare_task(tx, declaration, task, policy) or changed
        if changed:
            tx.run("queue", "touch", queue=declaration.queue)
            lane.recheck_queue(tx, declaration.queue)
            tx.wake(declaration.queue, tx.queue(declaration.queue).settings.concurrency or MANY)


def _declare_queue(tx: Tx, declaration: Declaration) -> bool:
    msgspec.convert(declaration.settings, QueueSettings)
    row = tx.row("queue", "get", queue=declaration.queue)
    assert row is not None
    stored, version = msgspec.json.decode(row["declared"]), declaration.version
    new = declared_settings(
        f"queue {declaration.queue!r}", stored, row["version"], declaration.settings, version,
        partial=declaration.partial,
    )  # fmt: skip
    if new is None:
        return False
    encoded = msgspec.json.encode(new, order="sorted")
    tx.run("queue", "declare", queue=declaration.queue, version=version, declared=encoded)
    return bool(new != stored)


def _declare_task(tx: Tx, declaration: Declaration, task: str, policy: Policy) -> bool:
    new = msgspec.json.encode(policy, order="sorted")
    for name, version, declared in tx.run("queue", "policies", queue=declaration.queue).fetchall():
        if name == task:
            # by meaning, not by bytes: a newer Holdfast may write a field that an older one did not know
            stored = msgspec.json.decode(declared, type=Policy)
            if stored == policy and declaration.version <= version:
                return False
            what = f"task {task!r} of queue {declaration.queue!r}"
            if stored != policy and not wins(what, stored, version, policy, declaration.version):
                return False
    tx.run("queue", "put_policy", queue=declaration.queue, task=task, version=declaration.version, declared=new)
    return True


def configure(tx: Tx, queue: str, set: Mapping[str, Any], clear: Sequence[str]) -> QueueSettings:
    """An operator's settings hold above what workers declare, until they are cleared."""
    view = tx.queue(queue)
    row = tx.row("queue", "get", queue=queue)
    assert row is not None
    operator = msgspec.json.decode(row["operator"])
    unknown = [name for name in (*set, *clear) if name not in QueueSettings.__struct_fields__]
    if unknown:
        known = ", ".join(QueueSettings.__struct_fields__)
        raise ConfigError(f"{unknown[0]!r} is not a setting of a queue; known are {known}")
    operator = {name: value for name, value in {**operator, **set}.items() if name not in clear}
    declared = msgspec.json.decode(row["declared"])
    try:
        settings = msgspec.convert({**declared, **operator}, QueueSettings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"queue {queue!r}: {error}") from None
    tx.run("queue", "operate", queue=queue, operator=msgspec.json.encode(operator))
    if (settings.key_concurrency, settings.key_rate) != (
        view.settings.key_concurrency,
        view.settings.key_rate,
    ):
        lane.recheck_queue(tx, queue)
    tx.wake(queue, settings.concurrency or MANY)
    return settings


def adjust(tx: Tx, queue: str, task: str, set: Mapping[str, Any], clear: Sequence[str]) -> Policy:
    """An operator's settings of a task hold above what workers declare, until they are cleared."""
    tx.queue(queue)
    stored = dict(tx.run("queue", "adjustments", queue=queue).fetchall()).get(task)
    operator = {**(msgspec.json.decode(stored) if stored else {}), **set}
    operator = {name: value for name, value in operator.items() if name not in clear}
    adjusted(Policy(), operator)
    if unknown := [name for name in clear if name not in ADJUSTABLE]:
        raise ConfigError(f"{unknown[0]!r} is not a setting of a task; known are {', '.join(ADJUSTABLE)}")
    if operator:
        tx.run("queue", "adjust", queue=queue, task=task, operator=msgspec.json.encode(operator))
    else:
        tx.run("queue", "clear_adjustment", queue=queue, task=task)
    tx.run("queue", "touch", queue=queue)
    return tx.policy(queue, task)


def limit_key(tx: Tx, queue: str, key: str, concurrency: int | None) -> None:
    """One key has a concurrency of its own, or no longer."""
    if concurrency is not None and (type(concurrency) is not int or concurrency < 1):
        raise ConfigError(
            f"key {key!r}: concurrency={concurrency!r}: a whole number from 1, or None for the queue's own"
        )
    if concurrency is None:
        tx.run("lane", "clear_limit", queue=queue, key=key)
    else:
        tx.run("lane", "set_limit", queue=queue, key=key, concurrency=concurrency)
    lane.recheck(tx, queue, key)
    tx.wake(queue, concurrency or MANY)
