"""The near end of a connection: each reply is handed on in the callback that brought its last byte.

redis-py makes the connection (login, database, TLS); from then on its streams are bypassed, which costs a reply two
turns of the loop less.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import hiredis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ClusterDownError,
    InvalidResponse,
    MasterDownError,
    ResponseError,
)

REPLIES = (
    ResponseError,
    BusyLoadingError,
    AuthenticationError,
    AuthorizationError,
    ClusterDownError,
    MasterDownError,
)
"""Errors that a server answered with: the connection is fine, and nothing was done."""
_NOTHING = object()


class RedisWire(asyncio.Protocol):
    """Takes a connection over: `on_reply` has every reply, `on_end` why there are no more."""

    def __init__(
        self, connection: AbstractConnection, on_reply: Callable[[Any], None], on_end: Callable[[str], None]
    ) -> None:
        assert connection._writer is not None
        self._on_reply = on_reply
        self._on_end = on_end
        self._replies = hiredis.Reader(
            protocolError=InvalidResponse,
            replyError=connection._parser.parse_error,
            notEnoughData=_NOTHING,
        )
        self.transport: Any = connection._writer.transport
        self._before: Any = self.transport.get_protocol()  # whose writer still waits for what this one is told
        self.transport.set_protocol(self)
        if connection._reader is not None and connection._reader._buffer:  # type: ignore[attr-defined]
            self.data_received(bytes(connection._reader._buffer))  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        replies = self._replies
        try:
            replies.feed(data)
            while (reply := replies.gets()) is not _NOTHING:
                if isinstance(reply, Exception) and not isinstance(reply, REPLIES):
                    self._on_end(str(reply))
                    return
                self._on_reply(reply)
        except InvalidResponse as error:
            self._on_end(str(error))

    def connection_lost(self, error: Exception | None) -> None:
        self._before.connection_lost(error)
        self._on_end(str(error) if error else "the connection was closed")

    def pause_writing(self) -> None:
        self._before.pause_writing()

    def resume_writing(self) -> None:
        self._before.resume_writing()
