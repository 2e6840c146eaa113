"""Errors of the server and the driver: what each means for the call, and ours for it."""

from __future__ import annotations

import re
import socket

import psycopg

from ....errors import ConfigError, StoreBusy, StoreError, StoreFull, StoreReadOnly
from ..url import PostgresAddress

_UNDONE = frozenset({"40001", "40P01", "55P03"})
"""Serialization failure, deadlock, lock not available: rolled back for certain, so that nothing was done."""
_TWO_UPDATES = "multixact has more than one updating member"
"""PostgreSQL's own mistake: a row is locked and updated at the very moment at which another update of it is undone."""
_LOST = re.compile(r"^(08...|57P0[1-5]|25P0[34])$")
_PASSING = re.compile("starting up|shutting down|recovery|not (yet )?accepting|too many|remaining connection slots")
_REFUSAL = re.compile("FATAL:|no password supplied")
_UNKNOWN_HOST = "|".join(str(getattr(socket, name)) for name in ("EAI_NONAME", "EAI_NODATA") if hasattr(socket, name))
_HOPELESS = re.compile(
    rf"failed to resolve host .*\[Errno ({_UNKNOWN_HOST})\]"
    r"|invalid \w+ value[: ]|invalid (port number|integer value)|weak sslmode|invalid when SSL support"
    r'|definition of service "'
    r"|SSL was required|(invalid response to|expected) (SSL negotiation|authentication request)"
    r'|certificate file "|certificate verify failed|server certificate for|private key'
)
"""What libpq says when it is asked for what cannot be: no such host, TLS that is not there, a file that is missing."""


class Unreachable(StoreError):
    """No connection could be made, so that nothing was done: later it may be."""


def may_pass(error: psycopg.Error) -> bool:
    """True when a later try may do. Errors have no code yet in this phase; what the server itself says is `FATAL`.

    Of several hosts, or addresses of one, each has its own line: one that cannot be right is told at once.
    """
    text = str(error)
    refused = _REFUSAL.search(text) and not _PASSING.search(text)
    return is_lost(error) and not refused and not _HOPELESS.search(text)


def is_lost(error: psycopg.Error) -> bool:
    """True when the connection is gone, so that it is unknown whether the call was done."""
    if error.sqlstate is not None:
        return bool(_LOST.match(error.sqlstate))
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def is_server_trouble(error: psycopg.Error) -> bool:
    """True for trouble of the server, or that other calls made: the same call may go well later."""
    return is_lost(error) or (error.sqlstate or "")[:2] in ("40", "53", "57", "58") or is_rolled_back(error)


def is_rolled_back(error: psycopg.Error) -> bool:
    """True when the server rolled a call back for what others did at the same time: it is repeated."""
    return error.sqlstate in _UNDONE or (error.sqlstate == "XX000" and _TWO_UPDATES in str(error))


def is_corrupt_row(error: psycopg.Error) -> bool:
    """True for an error that a row can raise which holds what we never write; nothing of the call was done."""
    told = error.diag.message_primary or ""  # the rest is our own SQL, in which NULL is a word
    return bool(error.sqlstate) and str(error.sqlstate)[:2] in ("22", "23", "20") and "NUL" not in told


def translate(error: psycopg.Error, address: PostgresAddress) -> StoreError | ConfigError:
    """Return our error for one of PostgreSQL's, with what to do next."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    text = next((line for line in lines if _HOPELESS.search(line)), lines[0])
    state = error.sqlstate or ""
    if is_rolled_back(error):
        return StoreBusy(f"{address} was locked by others for over {address.patience:g} s; end their long transactions")
    if state == "53300":
        return StoreBusy(f"{address} takes no more connections ({text}); lower pool=, or raise max_connections")
    if state in ("53100", "53200", "53000"):
        return StoreFull(f"{address}: no room left in the server; nothing of this call was written ({text})")
    if state == "25006":
        return StoreReadOnly(f"{address} cannot be written: it is a replica or read-only ({text})")
    if state in ("42P01", "42883", "3F000"):
        return StoreError(f"{address}: its tables or functions are gone or another's ({text}); run holdfast migrate")
    if state == "42501":
        return StoreError(f"{address}: this user lacks a right ({text}); see docs/reference/postgres.md")
    if not state and _HOPELESS.search(text):
        return StoreError(f"{address}: no connection can be made ({text}); check host, port and TLS options of the URL")
    if not state and _REFUSAL.search(text) and not _PASSING.search(text):
        return StoreError(f"{address}: the server refuses ({text}); check user, password, database and its pg_hba.conf")
    if is_lost(error):
        return StoreError(f"{address}: the connection was lost or refused ({text}); is the server running?")
    if isinstance(error, psycopg.DataError) and "NUL" in text:
        return ConfigError(f"PostgreSQL cannot keep text with a NUL character ({text})")
    return StoreError(f"{address}: {text}")
