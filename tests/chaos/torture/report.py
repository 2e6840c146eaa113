"""What a torture prints: the ledger in figures, what was broken by job, and a row for the table in the docs."""

from __future__ import annotations

from .verdict import Verdict

SHOWN = 10


def lines(verdict: Verdict) -> list[str]:
    """Return the report of one torture."""
    rate = verdict.jobs / max(verdict.seconds, 0.001)
    told = [
        f"{verdict.store}: {verdict.jobs:,} jobs, {verdict.attempts:,} attempts and {verdict.events:,} events in "
        f"{verdict.seconds:.0f} s ({rate:.0f} jobs/s), {verdict.faults.total()} faults of {len(verdict.faults)} kinds",
        "  ends        " + ", ".join(f"{count:,} {state}" for state, count in sorted(verdict.ends.items())),
        "  faults      " + ", ".join(f"{count} {kind}" for kind, count in sorted(verdict.faults.items())),
        *(f"  left out    {kind}: {why}" for kind, why in verdict.left_out.items()),
        f"  recovery    of the jobs of a lost worker {_leases(verdict.worker_recovery)}",
        f"              of the store after an outage {_leases(verdict.store_recovery)}",
        f"  duplicates  {verdict.restarted:,} attempts started again ({_share(verdict.restarted, verdict.attempts)}), "
        f"{verdict.doubled:,} jobs finished twice ({_share(verdict.doubled, verdict.jobs)})",
        f"  waiters     {verdict.waits:,}",
    ]
    for check, broken in verdict.broken.items():
        told.append(f"  {'ok    ' if not broken else 'BROKEN'}  {check}" + (f": {len(broken)}" if broken else ""))
        told += [f"            {text}" for text in broken[:SHOWN]]
    return [*told, f"  {row(verdict)}"]


def _leases(figures: tuple[float, float]) -> str:
    return f"{figures[0]:.2f} leases (median), {figures[1]:.2f} (worst)"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.3f} %"


def row(verdict: Verdict) -> str:
    """Return the row of the table in docs/reliability.md."""
    broken = sum(map(len, verdict.broken.values()))
    cells = (
        verdict.store, f"{verdict.jobs:,}", f"{verdict.attempts:,}",
        f"{verdict.faults.total()} of {len(verdict.faults)} kinds",
        f"{_share(verdict.restarted, verdict.attempts)}", f"{_share(verdict.doubled, verdict.jobs)}",
        f"{verdict.worker_recovery[0]:.1f} / {verdict.worker_recovery[1]:.1f}",
        f"{verdict.store_recovery[0]:.1f} / {verdict.store_recovery[1]:.1f}", str(broken),
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"
