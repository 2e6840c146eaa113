"""Suspects: a job whose worker vanished is tried again in smaller company, so that only the guilty reaches its limit.

The company of a job is how many jobs at most ran where it ran, itself included: whatever its worker has room for, or,
of a suspect, what it was allowed when it was claimed.
"""

from __future__ import annotations


def company_after(stalls: int, limit: int | None, company: int) -> int | None:
    """Return in what company a job may be tried again that stalled in this one; `None`: this stall was final.

    `stalls` counts this one. Half the company is tried next, and none at all when the next stall may be the last: so
    a job fails only of a stall that it suffered alone.
    """
    if limit is not None and stalls >= limit and company <= 1:
        return None
    if limit is not None and stalls + 1 >= limit:
        return 1
    return max(1, company // 2)
