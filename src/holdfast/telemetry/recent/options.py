"""How a log is followed."""

from __future__ import annotations

import msgspec

from ...core.bound import EVENTS_AT_ONCE


class RecentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How often, how far back, and how much at most. Durations are in seconds."""

    interval: float = 0.5
    """Between two looks at the log, while something happens and somebody reads."""
    eager_interval: float = 0.2
    """While something happens and somebody waits for each event."""
    idle_interval: float = 2.0
    """While nothing happens: the interval grows to this."""
    unread_interval: float = 5.0
    """While nobody has read for a minute."""
    page: int = EVENTS_AT_ONCE
    back: int = 50_000
    """How many events before the end it begins, where the store can tell that place; else it begins at the end."""
    share: float = 0.7
    """How much of its time it spends reading at most, when there is more than it can read."""
    most_events: int = 50_000
    """How many events it reads within a second at most: after a burst it catches up, and does not slow it."""
    crowded_events: int = 10_000
    """The same while other processes want the processor, too."""
    crowded_share: float = 0.05
    """And how much of a core it takes then at most."""
    patience: float = 30.0
    """When it was behind for so long, and is by as much, it leaves events out and goes on at the end."""
    look_every: float = 5.0
    """How often queues and workers are looked at."""
    lag_every: float = 30.0
    """How often the readers of the log are looked at, such as the lake: it takes a measure of the whole store."""
    dead_letters: int = 10_000
    """How many dead letters are counted at most, the newest; 0: none."""
    count_every: float = 15.0
    """How often the dead letters are counted again, when there are others; less often where that takes long."""
