"""Every key that the store uses, spelled once: here, and in the table of `docs/reference/redis.md`.

All keys of a queue begin with `{namespace:queue}`: the braces make it their hash tag, so that they share a slot of
a cluster. The Lua gets the same endings from here (`library.py`).
"""

from __future__ import annotations

ENDINGS = {
    "queue": (":queue", "hash", "name, epoch of the log, settings, counters (run, turn, sent), tokens, revision"),
    "jobs": (":jobs", "hash", "run -> record, for every run that is kept"),
    "ids": (":ids", "hash", "id -> the run that holds it"),
    "past": (":past", "hash", "id -> earlier runs that are kept"),
    "waiting": (":waiting", "zset", "jobs without a key, by priority, run_at and run"),
    "lane": (":lane:", "zset", "the same for one key, whose name follows"),
    "suspects": (":suspects", "zset", "jobs that stalled and wait for small company, with a key or without, the same"),
    "scheduled": (":scheduled", "zset", "run by run_at"),
    "blocked": (":blocked", "zset", "jobs that wait for others, by run"),
    "active": (":active", "hash", "run -> the session that holds it, and its key"),
    "completed": (":completed", "zset", "run by the instant at which it is removed"),
    "failed": (":failed", "zset", "the same for dead letters"),
    "cancelled": (":cancelled", "zset", "the same for cancelled runs"),
    "letters": (":letters", "zset", "dead letters by run, to keep the newest"),
    "signatures": (
        ":signatures",
        "zset",
        "signature of the last error of a job that failed or is failing, and its run",
    ),
    "successors": (":successors", "hash", "id -> the dispatch that waits for the active run to end"),
    "dedup": (":dedup", "hash", "task and key -> runs that were taken in under it"),
    "lanes": (":lanes", "hash", "key -> its turn and its bucket, while it has jobs"),
    "ready": (":ready", "zset", "keys that may give a job, by turn"),
    "timed": (":timed", "zset", "keys that lack only a token, by the instant at which it comes"),
    "cooling": (":cooling", "zset", "keys without jobs whose bucket is not full yet, by when it is"),
    "running": (":running", "hash", "key -> how many of its jobs are active"),
    "limits": (":limits", "hash", "key -> the concurrency that an operator gave it"),
    "sessions": (":sessions", "hash", "session -> who it is, when it was heard, whether it is dead"),
    "expiries": (":expiries", "zset", "living sessions by the end of their lease"),
    "dead": (":dead", "set", "sessions declared dead that still hold jobs"),
    "parked": (
        ":parked",
        "zset",
        "sessions that wait to be woken, by their room; half more for who may be given to",
    ),
    "aborts": (":aborts", "hash", "run/attempt -> whose handler must stop, and why"),
    "watchers": (":watchers", "hash", "id -> runs and the addresses that wait for them"),
    "policies": (":policies", "hash", "task -> its policy in force"),
    "declared": (":declared", "hash", "task -> what workers declared of it, with its version"),
    "adjusted": (":adjusted", "hash", "task -> what operators set of it"),
    "requests": (":requests", "hash", "request id -> its first answer"),
    "answered": (":answered", "list", "request ids by age"),
    "blockers": (":blockers", "hash", "run and number -> what the run waits for, or waited for, and how that ended"),
    "dependants": (":dependants", "zset", "run of a chain's first job, and who waits for it, here or in another queue"),
    "members": (":members", "zset", "chain, and a later job of it"),
    "tails": (":tails", "hash", "run of a chain's first job -> position, queue and id of its latest"),
    "chains": (":chains", "zset", "first jobs that continued, by run"),
    "outbox": (":outbox", "zset", "messages for other queues, by number"),
    "inbox": (":inbox", "hash", "sender -> the number of its last message that was applied"),
    "schedules": (":schedules", "hash", "schedule -> its revision and what it does"),
    "ticks": (":ticks", "zset", "schedules by their next tick"),
    "corrupt": (":corrupt", "hash", "run -> a record that could not be read, as it was"),
    "aside": (":aside", "list", "what could not be read and was set aside, the newest 1,000"),
    "untold": (":untold", "list", "what of it no worker has been told of yet"),
    "mistyped": (":mistyped:", "any", "what another program wrote over a key of ours, whose name follows"),
    "readers": (
        ":readers",
        "hash",
        "named reader of the log -> what it has still to read, and when it said so",
    ),
    "events": (":events", "stream", "the log; ids are epoch-sequence"),
}
"""By name: how the key ends, its type, and what it holds. Whatever has another type is set aside
(`connection/mistyped.py`), so that a key which is to change its type needs another ending."""

STORE_ENDINGS = {
    "queues": (":queues", "set", "the names of all queues"),
    "store": (":store", "hash", "when any session was last heard, and by how much expiries have moved"),
}
"""The same for keys of the whole namespace; no atomic step of a queue needs them."""


class Keys:
    """The keys of one namespace."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self._queues: dict[str, str] = {}

    def of_store(self, name: str) -> str:
        """Return a key of the whole namespace."""
        return f"{{{self.namespace}}}{STORE_ENDINGS[name][0]}"

    def mistyped(self, name: str) -> str:
        """Return where a key of the whole namespace is kept that another program gave another type."""
        return f"{{{self.namespace}}}{ENDINGS['mistyped'][0]}{name}"

    def base(self, queue: str) -> str:
        """Return what all keys of a queue begin with. A closing brace would end the hash tag early."""
        escaped = queue.replace("%", "%25").replace("}", "%7D")
        return f"{{{self.namespace}:{escaped}}}"

    def of(self, queue: str, name: str) -> str:
        """Return a key of a queue."""
        return self.base(queue) + ENDINGS[name][0]

    def queue_of(self, key: str) -> str | None:
        """Return the queue that a key belongs to, if it is one of a queue."""
        base, brace, _ = key.partition("}")
        if not brace or not base.startswith(f"{{{self.namespace}:"):
            return None
        return base[len(self.namespace) + 2 :].replace("%7D", "}").replace("%25", "%")

    def declared(self, queue: str) -> str:
        """Return the key that stands for a queue's slot in every call."""
        key = self._queues.get(queue)
        if key is None:
            if len(self._queues) > 10_000:
                self._queues.clear()
            key = self._queues[queue] = self.of(queue, "queue")
        return key

    def channel(self, listener: str) -> str:
        """Return the channel of one process's listener."""
        return f"{self.namespace}:listener:{listener}"


def short(id: str) -> bytes:
    """Return an id as it is stored: 32 hexadecimal digits are 16 bytes behind a mark."""
    if len(id) == 32:
        try:
            digits = bytes.fromhex(id)
        except ValueError:
            pass
        else:
            if digits.hex() == id:  # which capitals and spaces are not
                return b"\1" + digits
    stored = id.encode()
    return b"\0" + stored if stored[:1] in (b"\0", b"\1") else stored


def long(stored: bytes) -> str:
    """Return a stored id as its caller wrote it."""
    mark = stored[0] if stored else 2
    if mark == 1:
        return stored[1:].hex()
    return stored.decode() if mark else stored[1:].decode()
