"""What the project promises, and whether this run kept it."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.compare.rounds import OURS, Outcome

ON_NODE = ("bullmq", "platformatic")
LEAN = "platformatic"
"""The leanest peer that deduplicates and keeps state; its bytes for a waiting job, where a run does not measure it."""
LEAN_BYTES = 333
WORDS = {"bulk": "bulk", "enqueue": "one by one", "call_p50": "call p50", "callers": "50 callers", "p50": "idle p50"}


@dataclass(frozen=True)
class Verdict:
    """A target beside its figure. `kept` is None where the run did not measure it."""

    target: str
    figure: str
    kept: bool | None


def judge(store: str, outcome: Outcome) -> list[Verdict]:
    """Every target of a store, in the order of the issue that set them."""
    return _TARGETS[store](outcome) if store in _TARGETS else []


def _sqlite(outcome: Outcome) -> list[Verdict]:
    return [
        _at_least("drain", "20,000/s", outcome.of("holdfast", "drain"), 20_000),
        _times("litequeue", outcome, 5),
        _times("huey", outcome, 10, " as it comes (FULL, ours NORMAL)"),
        _bulk(outcome),
        _at_least("memory:// drain", "25,000/s", outcome.of("holdfast memory://", "drain"), 25_000),
        _at_least("50 callers", "4,000/s", outcome.of(OURS, "callers"), 4_000),
        _full(outcome),
        _idle(outcome),
        _flat(outcome),
    ]


def _redis(outcome: Outcome) -> list[Verdict]:
    return [
        _at_least("drain", "20,000/s", outcome.of(OURS, "drain"), 20_000),
        *(_times(peer, outcome, 3 if peer in ON_NODE else 10) for peer in outcome.peers("drain")),
        _at_least("enqueue_many", "60,000/s", outcome.of(OURS, "bulk"), 60_000),
        _beside("bulk", outcome, 1),
        _bare(outcome),
        _beside("enqueue", outcome, 1.5),
        _beside("call_p50", outcome, 2),
        _beside("callers", outcome, 3),
        _beside("p50", outcome, 1),
        _lean(outcome),
        _at_most("both together <= 400 bytes", _with_event(outcome), 400, "{:.0f} bytes"),
        _at_most("its event <= 150 bytes", outcome.of(OURS, "event_bytes"), 150, "{:.0f} bytes"),
        _at_most("2,000 jobs of 50 ms, 100 at a time, <= 1.1 s", outcome.of(OURS, "sleep"), 1.1, "{:.2f} s"),
        _at_most("claims sent per job with 50 idle workers <= 3", outcome.of(OURS, "wakes"), 3, "{:.2f}"),
        _flat(outcome),
    ]


def _postgres(outcome: Outcome) -> list[Verdict]:
    return [
        _times("pgqueuer", outcome, 2),
        _times("awa", outcome, 4),
        _times("procrastinate", outcome, 20),
        _times("saq", outcome, 20),
        _beside("bulk", outcome, 1),
        _at_most("a waiting job and its event <= 800 bytes", _with_event(outcome), 800, "{:.0f} bytes"),
        _at_most("call p50 < 10 ms", outcome.of(OURS, "call_p50"), 10, "{:.2f} ms"),
        _beside("callers", outcome, 3),
        _idle(outcome, 10),
        _flat(outcome),
    ]


_TARGETS = {"sqlite": _sqlite, "redis": _redis, "postgres": _postgres}


def _with_event(outcome: Outcome) -> float | None:
    waiting = outcome.of(OURS, "waiting_bytes")
    return None if waiting is None else waiting + (outcome.of(OURS, "event_bytes") or 0)


def _full(outcome: Outcome) -> Verdict:
    ratio = outcome.ratio("drain", f"{OURS} at FULL", OURS)
    return _verdict("drain at FULL >= 0.8 x at NORMAL", ratio, "{:.2f} x", (ratio or 0) >= 0.8)


def _at_least(name: str, wanted: str, figure: float | None, least: float) -> Verdict:
    return _verdict(f"{name} >= {wanted}", figure, "{:,.0f}/s", figure is not None and figure >= least)


def _at_most(target: str, figure: float | None, most: float, shown: str) -> Verdict:
    return _verdict(target, figure, shown, figure is not None and figure <= most)


def _beside(metric: str, outcome: Outcome, least: float) -> Verdict:
    """So many times better than the best peer of this run."""
    best = next(iter(outcome.peers(metric)), None)
    ratio = outcome.better(metric, OURS, best) if best else None
    target = f"{WORDS[metric]}: {least:.3g} x better than the best peer"
    return _verdict(target, ratio, f"{{:.2f}} x {best}", (ratio or 0) >= least)


def _bare(outcome: Outcome) -> Verdict:
    ratio = outcome.ratio("enqueue", "bare call", OURS)
    return _at_most("one by one <= 1.3 x a bare call of the function by the same client", ratio, 1.3, "{:.2f} x")


def _lean(outcome: Outcome) -> Verdict:
    most = outcome.of(LEAN, "waiting_bytes") or LEAN_BYTES
    target = f"a waiting job in the server <= {most:.0f} bytes ({LEAN})"
    return _at_most(target, outcome.of(OURS, "waiting_bytes"), most, "{:.0f} bytes")


def _times(peer: str, outcome: Outcome, least: float, remark: str = "") -> Verdict:
    ratio = outcome.ratio("drain", "holdfast", peer)
    return _verdict(f"drain >= {least:g} x {peer}{remark}", ratio, "{:.1f} x", ratio is not None and ratio >= least)


def _bulk(outcome: Outcome) -> Verdict:
    """50,000/s, or half of the bare store on a machine too slow for that."""
    figure, share = outcome.of("holdfast", "bulk"), outcome.ratio("bulk", "holdfast", "floor")
    kept = (figure or 0) >= 50_000 or (share or 0) >= 0.5
    shown = "{:,.0f}/s" + (f", {share:.2f} x the floor" if share else "")
    return _verdict("enqueue_many >= 50,000/s, or half of the floor if that is less", figure, shown, kept)


def _idle(outcome: Outcome, most: float = 5) -> Verdict:
    p50 = outcome.of("holdfast", "p50")
    return _verdict(f"idle p50 < {most:g} ms", p50, "{:.2f} ms", p50 is not None and p50 < most)


def _flat(outcome: Outcome) -> Verdict:
    growth = outcome.of("holdfast", "rss_growth")
    kept = growth is not None and growth <= 1.1
    return _verdict("worker memory after 200,000 jobs <= 1.1 x after 20,000", growth, "{:.3f} x", kept)


def _verdict(target: str, figure: float | None, shown: str, kept: bool) -> Verdict:
    return Verdict(target, "-", None) if figure is None else Verdict(target, shown.format(figure), kept)
