"""One record of a store holds what Holdfast never writes, as after a bug, a bad disk or somebody else's hand."""

from __future__ import annotations

from holdfast import Holdfast
from holdfast.store.postgres import PostgresStore
from holdfast.store.redis import RedisStore
from holdfast.store.redis.keys import Keys, short
from holdfast.store.sqlite import SqliteStore


async def spoil_job(app: Holdfast, queue: str, id: str) -> None:
    """The record of a job cannot be read."""
    store = app.store
    if isinstance(store, SqliteStore):
        spoilt = (
            f"UPDATE \"{store.address.namespace}_job\" SET task = x'ff00', state = 'bogus' WHERE queue = ? AND id = ?"
        )
        await store.database.writer.ask(lambda connection, after: connection.execute(spoilt, (queue, id)) and None)
    elif isinstance(store, PostgresStore):
        spoilt = f"UPDATE \"{store.caller.address.schema}\".job SET state = 'bogus' WHERE queue = %s AND id = %s"
        await store.caller.rows(spoilt, (queue, id))
    elif isinstance(store, RedisStore):
        keys, server = Keys(store.address.namespace), store.server
        key = keys.of(queue, "jobs")
        run = await server.ask(["HGET", keys.of(queue, "ids"), short(id)], key)
        await server.ask(["HSET", key, run, b"rubbish"], key)


async def spoil_event(app: Holdfast, queue: str, id: str) -> None:
    """Events of a job cannot be read: those that are there, or, in Redis, one more of them."""
    store = app.store
    if isinstance(store, SqliteStore):
        spoilt = (
            f"UPDATE \"{store.address.namespace}_event\" SET task = x'ff00', state = 'bogus' WHERE queue = ? AND id = ?"
        )
        await store.database.writer.ask(lambda connection, after: connection.execute(spoilt, (queue, id)) and None)
    elif isinstance(store, PostgresStore):
        spoilt = f"UPDATE \"{store.caller.address.schema}\".event SET state = 'bogus' WHERE queue = %s AND id = %s"
        await store.caller.rows(spoilt, (queue, id))
    elif isinstance(store, RedisStore):
        keys = Keys(store.address.namespace)
        epoch = await store.server.ask(["HGET", keys.declared(queue), "epoch"], keys.declared(queue))
        entry = ["XADD", keys.of(queue, "events"), epoch.decode() + "-*", "i", short(id), "e", b"rubbish"]
        await store.server.ask(entry, keys.declared(queue))
