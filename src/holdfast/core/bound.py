"""Bounds that more than one place must know: every store, or Python beside Lua and SQL.

Each has one spelling, here. Python imports the names. Lua and SQL get the numbers when their text is loaded: a store
passes the text through `filled`, which puts the number for `@NAME` (`LIMIT @MOST_PROMOTED`), or writes the names that
it wants of `injected()` at the head of its text (`local MOST_PROMOTED = 200`). A number that only one file knows stays
in that file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

# Claims and wake-ups
MOST_PROMOTED = 200
"""Scheduled jobs that one claim promotes, and keys whose lane it looks at again."""
MOST_SUSPECTS = 200
"""Suspects that one claim looks at; of those whose key may start none there may be more."""
MOST_WOKEN = 64
"""Parked workers that one step wakes."""
ALL_WORKERS = 1_000_000
"""As a number of jobs to wake workers for: more than all parked workers have room for."""
FEW_QUEUES = 16
"""A worker of so many queues asks all of them in each turn, and looks after each; one of more chooses."""
CROWD = 1_000_000_000
"""As what a session holds: more than any suspect's company."""

# Leases and heartbeats
DEFAULT_LEASE_MS = 15_000
"""The lease of a session that does not say another."""
SHORTEST_LEASE_MS = 300
"""No worker could keep a shorter lease."""
PULSE_MS = 1000
"""The store's pulse (when it last heard of any worker) is written at most so often …"""
PULSES_IN_A_LEASE = 6
"""… and at least so many times in a lease, where that is more often."""

# Batches of upkeep, and pages
REAPED_AT_ONCE = 100
"""Jobs that one `reap` takes back."""
EXPIRED_AT_ONCE = 1000
"""Runs that one `expire` removes."""
DUE_AT_ONCE = 100
"""Schedules that one `due` returns."""
CANCELLED_AT_ONCE = 1000
"""Jobs that one cancel by filter takes."""
EVENTS_AT_ONCE = 1000
"""Events of one page of the log."""
MOST_PACKED = 1000
"""Events that one row of a log may have."""
ASKED_AT_ONCE = 500
"""Questions of many callers, or jobs of a bulk, that go to a store in one call."""
MOST_UNAWAITED = 10_000
"""Jobs of `enqueue_nowait` that are on their way to the store."""
MOST_ERRORS_KEPT = 100
"""Errors of one kind that are kept until somebody asks for them; of more only the number is known."""
LOOKED_AT_ONCE = 4000
"""Rows that one page of a list looks at, where no index has what its filter asks for."""
GATHERED_AT_ONCE = 20_000
"""Entries of an index that is not in the order of a list, which one page of it reads."""
MOST_COUNTED = 10_000
"""As many are counted, and no further, where no counter knows the number."""
KEYS_LOOKED_AT = 500
"""Keys among which a list of keys chooses, besides those that an index puts first."""
SCANNED_AT_ONCE = 20_000
"""Rows of one page of a scan."""
SWEPT_AT = 1000
"""After so many jobs that were enqueued, a producer sweeps the log."""
MOST_MENDED = 5
"""How often a call is made again because rows that cannot be read were set aside."""
MENDED_AT_ONCE = 1000
"""Rows that cannot be read which one such step looks for."""

# What is remembered
REMEMBERED_MS = 600_000
"""How long the answer to a request id is kept, for a caller that lost it."""
KEPT_FOR_WATCHERS_MS = 60_000
"""How long a run stays whose end was told to a watcher, so that its result can be fetched."""
KEPT_EVENTS = 1_000_000
"""Events that the log keeps, where the store's URL does not say."""
MOST_BEHIND = 10
"""A log with a reader that is behind grows to so many times its history, and no further."""
READER_FORGOTTEN_MS = 7 * 24 * 3600 * 1000
"""After so long without a word a reader holds nothing."""
PROGRESS_EVENT_MS = 1000
"""Progress of one job is written to the log at most once in so long."""
MOST_SET_ASIDE = 1000
"""Records that could not be read, and are kept to be looked at: the newest."""
MOST_SAME_DEDUP = 50
"""Runs with a deduplication key that an enqueue looks at: the latest."""
WITH_CHAIN = 1000
"""Jobs before this position go with their chain; those behind by their own time, since a chain may be endless."""
RESULT_TTL_MS = 3600 * 1000
"""How long a result stays, where neither job nor queue says."""
FAILED_KEPT_MS = 90 * 24 * 3600 * 1000
"""How long a dead letter stays, where its queue does not say."""
NO_INSTANT = -(10**17)
"""As the instant at which a completed job is removed, while it has none: it goes with its chain."""
FOR_EVER_MS = 10**14
"""Some three thousand years: what is kept for so long stays until it is deleted."""

# Retries, where a task does not say
MOST_FAILURES = 3
"""The failure that is final."""
MOST_STALLS = 3
"""The stall that is final."""
MOST_TIMEOUTS = 3
"""The time-out that is final."""
MOST_RELEASES = 100
"""The release that is final."""
FIRST_BACKOFF = 2
"""Seconds before the second attempt."""
BACKOFF_FACTOR = 2
"""How much longer each wait is than the one before."""
LONGEST_BACKOFF = 300
"""No wait has more seconds."""
MOST_DOUBLED = 1023
"""The highest exponent of a back-off: a larger one overflows a float."""

# Numbers and texts
LOWEST_PRIORITY = -1000
"""The last."""
HIGHEST_PRIORITY = 1000
"""The first."""
MOST_COUNT = 10**9
"""No limit, counter or number of things is higher: what means more means no limit."""
LARGEST_NUMBER = 2**53
"""No instant, version or count that a store keeps is larger: Lua and JSON know no other integers."""
MOST_RUN = 2**48 - 1
"""No run has a higher number."""
MOST_ID_BYTES = 1024
"""Bytes of an id, of a key or of another word by which jobs are found."""
MOST_NAME_BYTES = 255
"""Bytes of the name of a queue or a schedule."""
MOST_ACTION_BYTES = 2000
"""Bytes that the event of an action has to say what was changed."""
MOST_CALL_BYTES = 16 * 1024 * 1024
"""Bytes that one call brings to a store, but for a single job that has more."""
SMALL_BYTES = 64 * 1024
"""A job of up to so many bytes goes to the store together with others."""

_NAME = re.compile(r"@([A-Z][A-Z_]+)\b")
_BOUNDS = MappingProxyType({name: value for name, value in globals().items() if name.isupper() and name[0] != "_"})


def injected() -> Mapping[str, int]:
    """Return every bound by its name."""
    return _BOUNDS


def filled(text: str) -> str:
    """Return Lua or SQL with the number for every `@NAME`. An unknown name raises `KeyError`."""
    return _NAME.sub(lambda found: str(_BOUNDS[found[1]]), text)
