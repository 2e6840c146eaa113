"""What the project promises, and whether this run kept it."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.rounds import Outcome


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
        _idle(outcome),
        _flat(outcome),
    ]


def _redis(outcome: Outcome) -> list[Verdict]:
    peers = sorted({name for name, _ in outcome.figures} - {"holdfast", "floor"})
    return [
        _at_least("drain", "20,000/s", outcome.of("holdfast", "drain"), 20_000),
        *(_times(peer, outcome, 3 if peer in ("bullmq", "platformatic") else 10) for peer in peers),
        _at_least("enqueue_many", "60,000/s", outcome.of("holdfast", "bulk"), 60_000),
        *(_ratio("callers", peer, outcome, 3) for peer in peers),
        *(_ratio("call_p50", peer, outcome, 1 / 0.6) for peer in peers),
        _sleep(outcome),
        _at_most("a waiting job in the server", outcome.of("holdfast", "waiting_bytes"), 333),
        _at_most("its event", outcome.of("holdfast", "event_bytes"), 150),
    ]


def _ratio(metric: str, peer: str, outcome: Outcome, least: float) -> Verdict:
    """Latencies the other way round, so that more is always better."""
    sides = (peer, "holdfast") if metric == "call_p50" else ("holdfast", peer)
    ratio = outcome.ratio(metric, *sides)
    return _verdict(f"{metric}: {least:.3g} x better than {peer}", ratio, "{:.2f} x", (ratio or 0) >= least)


def _sleep(outcome: Outcome) -> Verdict:
    figure = outcome.of("holdfast", "sleep")
    return _verdict("2,000 jobs of 50 ms, 100 at a time, <= 1.1 s", figure, "{:.2f} s", (figure or 9) <= 1.1)


def _at_most(name: str, figure: float | None, most: float) -> Verdict:
    return _verdict(f"{name} <= {most:g} bytes", figure, "{:.0f} bytes", figure is not None and figure <= most)


def _postgres(outcome: Outcome) -> list[Verdict]:
    return [
        _times("pgqueuer", outcome, 2),
        _at_least("enqueue_many", "31,000/s", outcome.of("holdfast", "bulk"), 31_000),
        _idle(outcome, 10),
    ]


_TARGETS = {"sqlite": _sqlite, "redis": _redis, "postgres": _postgres}


def _at_least(name: str, wanted: str, figure: float | None, least: float) -> Verdict:
    return _verdict(f"{name} >= {wanted}", figure, "{:,.0f}/s", figure is not None and figure >= least)


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
