"""The arithmetic of the benchmark command: no servers, no clocks."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from rich.console import Console

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks import curve, peers
from benchmarks.compare import report, rounds, target, wake
from benchmarks.compare.environment import NotInstallable
from benchmarks.compare.measure import bytes_each
from benchmarks.compare.process import Failed, TimedOut
from benchmarks.compare.rounds import Outcome, Plan
from benchmarks.health import postgres as health
from benchmarks.health import sqlite as health_sqlite
from benchmarks.meter import spent
from benchmarks.page import kept as kept_figures
from benchmarks.page.plan import PagePlan
from benchmarks.system import MEASURES, System

REDIS_PEERS = {"arq", "bullmq", "celery", "dramatiq", "platformatic", "rq", "saq", "streaq", "taskiq"}


def outcome_of(**figures: dict[str, float]) -> Outcome:
    """One round; a system's name, and its figures by metric."""
    outcome = Outcome(rounds=1)
    for name, metrics in figures.items():
        for metric, value in metrics.items():
            outcome.figures[name.replace("_", " "), metric][0] = value
    return outcome


def verdict(store: str, outcome: Outcome, words: str) -> target.Verdict:
    (found,) = [each for each in target.judge(store, outcome) if words in each.target]
    return found


def system(name: str, *measures: str, **options: str) -> System:
    return System(name=name, script="none", store="redis", measures=measures, packages=("none",), **options)  # type: ignore[arg-type]


# --- figures


def test_a_ratio_is_the_median_of_each_rounds_own() -> None:
    outcome = Outcome(rounds=3)
    outcome.figures["holdfast", "drain"].update({0: 100, 1: 40, 2: 90})
    outcome.figures["rq", "drain"].update({0: 10, 1: 2})
    assert outcome.ratio("drain", "holdfast", "rq") == 15


def test_better_turns_latencies_and_sizes_round() -> None:
    outcome = outcome_of(holdfast={"drain": 20, "p50": 1}, rq={"drain": 10, "p50": 3})
    assert outcome.better("drain", "holdfast", "rq") == 2
    assert outcome.better("p50", "holdfast", "rq") == 3


def test_the_best_peer_is_none_of_our_own_rows() -> None:
    outcome = outcome_of(holdfast={"p50": 1}, floor={"p50": 0.1}, bare_call={"p50": 0.2}, rq={"p50": 5}, saq={"p50": 4})
    assert outcome.peers("p50") == ["saq", "rq"]


def test_bytes_are_split_between_the_job_and_its_event() -> None:
    assert bytes_each(grown=4_000, events=1_000, jobs=10) == {"waiting_bytes": 300, "event_bytes": 100}
    assert bytes_each(grown=4_000, events=0, jobs=10) == {"waiting_bytes": 400}


def test_claims_of_idle_polling_are_not_counted_as_wake_ups() -> None:
    assert wake.claims_per_job(idle=(20, 2.0), busy=(450, 5.0), jobs=200) == 2


def test_server_time_is_what_functions_took() -> None:
    assert spent({"cmdstat_fcall": {"usec": 12, "calls": 3}, "cmdstat_info": {"usec": 900}}) == 12
    assert spent({}) == 0


# --- what fails


@pytest.mark.parametrize(
    ("error", "word", "attempts"),
    [(TimedOut("slow"), "timed out", 1), (NotInstallable("gone"), "not installable", 1), (Failed("odd"), "failed", 2)],
)
def test_a_peer_that_fails_gets_a_word_and_does_not_stop_the_run(
    monkeypatch: pytest.MonkeyPatch, error: Exception, word: str, attempts: int
) -> None:
    asked: list[str] = []

    def measure(system: System, *rest: object) -> tuple[dict[str, float], None]:
        asked.append(system.name)
        if system.name == "rq":
            raise error
        return {"call_p50": 1.0, "callers": 10.0}, None

    monkeypatch.setattr(rounds, "measure", measure)
    plan = Plan((system("rq", "call"), system("saq", "call")), ("call",), jobs=1, peer_jobs=1, rounds=2)
    outcome = rounds.run(plan, lambda line: None)
    assert report._figure(outcome, "rq", "callers", "{}") == word
    assert report._figure(outcome, "saq", "callers", "{:.0f}") == "10"
    assert asked.count("rq") == attempts
    assert report.as_json(plan, outcome, [])["systems"]["rq"]["words"]["call_p50"] == word


def test_a_part_of_the_jobs_does_for_what_costs_the_same_each_time() -> None:
    plan = Plan((), (), jobs=50_000, peer_jobs=20_000, rounds=1)
    assert plan.jobs_for(system("rq"), "drain") == 20_000
    assert plan.jobs_for(system("rq"), "enqueue") == rounds.MOST["enqueue"]


# --- targets


def test_a_target_that_was_not_measured_has_no_verdict() -> None:
    assert all(
        each.kept is None for store in ("sqlite", "redis", "postgres") for each in target.judge(store, Outcome(1))
    )


def test_a_bare_call_may_be_a_little_faster_than_ours() -> None:
    words = "bare call"
    assert verdict("redis", outcome_of(holdfast={"enqueue": 100}, bare_call={"enqueue": 130}), words).kept
    assert verdict("redis", outcome_of(holdfast={"enqueue": 100}, bare_call={"enqueue": 131}), words).kept is False


def test_a_waiting_job_is_as_lean_as_the_leanest_peer_of_the_run() -> None:
    outcome = outcome_of(holdfast={"waiting_bytes": 300})
    assert verdict("redis", outcome, "a waiting job").kept
    outcome.figures["platformatic", "waiting_bytes"][0] = 250
    assert verdict("redis", outcome, "a waiting job").kept is False


def test_node_peers_are_to_be_beaten_by_three_and_others_by_ten() -> None:
    outcome = outcome_of(holdfast={"drain": 40}, bullmq={"drain": 10}, rq={"drain": 10})
    assert verdict("redis", outcome, "x bullmq").kept
    assert verdict("redis", outcome, "x rq").kept is False


def test_the_targets_of_postgres_are_those_of_the_issue() -> None:
    outcome = outcome_of(
        holdfast={"drain": 100, "bulk": 9, "call_p50": 9, "callers": 30},
        pgqueuer={"drain": 50, "bulk": 10, "callers": 10},
        saq={"drain": 6},
    )
    kept = {each.target: each.kept for each in target.judge("postgres", outcome)}
    assert kept["drain >= 2 x pgqueuer"]
    assert kept["drain >= 20 x saq"] is False
    assert kept["drain >= 20 x procrastinate"] is None
    assert kept["bulk: 1 x better than the best peer"] is False
    assert kept["call p50 < 10 ms"]
    assert kept["50 callers: 3 x better than the best peer"]


# --- long runs


def test_the_curve_goes_up_by_tens_and_with_keys_only_as_far_as_memory_is_worth_it() -> None:
    assert curve.plots(10_000, keys=0) == [(1_000, 0), (10_000, 0)]
    plots = curve.plots(10_000_000, keys=5)
    assert max(size for size, keys in plots if not keys) == 10_000_000
    assert max(size for size, keys in plots if keys) == curve.MOST_WITH_KEYS


def test_the_speed_of_the_whole_is_that_of_equal_parts_one_after_the_other() -> None:
    assert health.whole([100, 50]) == pytest.approx(2 / (1 / 100 + 1 / 50))
    assert health.claim_growth({1_000: 2.0, 10_000: 3.0}) == 1.5


def test_a_store_that_has_reached_its_length_is_flat_and_the_bound_of_the_log_counts() -> None:
    console = Console(quiet=True)
    flat = health_sqlite.Course(jobs=10, seconds=1, wal_mb=[9, 20, 21], file_mb=[1, 7, 7], worker_mb=[30, 36, 37])
    assert health_sqlite.show(console, {"low load": flat})
    grown = health_sqlite.Course(jobs=10, seconds=1, wal_mb=[9, 20, 21], file_mb=[1, 7, 9], worker_mb=[30, 36, 37])
    assert not health_sqlite.show(console, {"low load": flat, "high load": grown})
    filling = health_sqlite.Course(
        jobs=10, seconds=150, wal_mb=[9, 9, 9], file_mb=[1, 5, 7], worker_mb=[30, 36, 37], ended=[10, 50, 150]
    )
    assert health_sqlite.show(console, {"low load": filling}), "what is kept for a minute is there after 70 s only"
    long = health_sqlite.Course(jobs=10, seconds=1, wal_mb=[9, 65, 21], file_mb=[1, 7, 7], worker_mb=[30, 36, 37])
    assert not health_sqlite.show(console, {"low load": long})


# --- rows


def test_every_peer_of_redis_is_found_and_knows_its_measures() -> None:
    assert set(peers.known("redis")) == REDIS_PEERS
    assert set(peers.known("postgres")) == {"awa", "pgqueuer", "procrastinate", "saq"}
    every = [each for store in ("sqlite", "redis", "postgres") for rows in peers.known(store).values() for each in rows]
    assert all(set(each.measures) <= {*MEASURES, "recovery"} for each in every)


def test_a_part_that_is_measured_on_one_store_keeps_the_others_of_the_same_sizes() -> None:
    plan = PagePlan({}, parts=("sustained",), stores=("redis",), sustained=600)
    stamp = {"taken": "monday", "plan": {**asdict(plan), "stores": ["postgres"]}, "others": {"sqlite": "sunday"}}
    stamp["plan"] = json.loads(json.dumps(stamp["plan"]))
    before = {"sustained": {"sqlite": 1, "redis": 2, "postgres": 3}, "parts": {"sustained": stamp}}
    kept = kept_figures.others(plan, "sustained", before)
    assert kept.taken == {"sqlite": "sunday", "postgres": "monday"}
    assert kept_figures.beside({"redis": 4}, kept) == {"sqlite": 1, "redis": 4, "postgres": 3}
    shorter = replace(plan, sustained=30)
    assert kept_figures.beside({"redis": 4}, kept_figures.others(shorter, "sustained", before)) == {"redis": 4}


def test_rows_of_other_stores_are_kept_in_the_order_of_the_page() -> None:
    plan = PagePlan({}, parts=("recovery",), stores=("sqlite",))
    stamp = {"taken": "monday", "plan": json.loads(json.dumps(asdict(plan)))}
    before = {"recovery": [{"store": "sqlite", "lost": 1}, {"store": "redis", "lost": 0}], "parts": {"recovery": stamp}}
    kept = kept_figures.others(plan, "recovery", before)
    rows = [{"store": "sqlite", "lost": 0}, {"store": "redis", "lost": 0}]
    assert kept_figures.beside(rows[:1], kept) == rows
