"""The page of the benchmarks: what it is made of, and its arithmetic; no servers, no clocks."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support import until

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks import processor, recovery, sustained
from benchmarks.compare import rounds
from benchmarks.compare.rounds import Outcome
from benchmarks.page import charts, words, write
from benchmarks.page import figures as taking
from benchmarks.page.charts import bars
from benchmarks.page.plan import FULL, QUICK, PagePlan
from benchmarks.script import quantiles
from benchmarks.third_party import adapter, contract, harness_run


def test_every_system_of_a_drain_tells_what_it_cost() -> None:
    assert set(rounds.METRICS["drain"]) == {"drain", "drain_us", "drain_server_us"}
    outcome = Outcome(rounds=1)
    outcome.figures["holdfast", "drain_us"][0] = 30
    outcome.figures["rq", "drain_us"][0] = 90
    assert outcome.better("drain_us", "holdfast", "rq") == 3


def test_a_process_is_read_though_its_name_has_brackets_and_blanks() -> None:
    found = processor.parse(7, "7 (a ) b) S 3 7 5 0 -1 0 0 0 0 0 100 50 20 30 20 0 1 0 0")
    assert (found.parent, found.session) == (3, 5)
    assert found.own == 150 / processor.TICKS
    assert found.seconds == 200 / processor.TICKS


def test_no_path_of_the_machine_is_kept_with_the_figures() -> None:
    assert taking._without_paths(replace(FULL, clone="/home/ann/their/harness")).clone == "harness"


CHILD_IN_A_GROUP_OF_ITS_OWN = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, process_group=0)
print(child.pid, flush=True)
input()
"""


def test_a_signal_reaches_every_group_of_a_session() -> None:
    """Worker processes have groups of their own: those of `--processes 2` once ran before the watch was started."""
    command, pipe = [sys.executable, "-c", CHILD_IN_A_GROUP_OF_ITS_OWN], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            processor.signal_session(parent.pid, signal.SIGSTOP)
            for pid in (parent.pid, child):
                until(lambda pid=pid: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        finally:
            processor.signal_session(parent.pid, signal.SIGKILL)


def test_jobs_are_lost_or_doubled_by_the_numbers_that_were_noted() -> None:
    assert recovery.tally(["0", "1", "1", "3", "xxxx"], jobs=5) == (2, 1)
    assert recovery.tally([], jobs=3) == (3, 0)


def test_quantiles_are_named_by_their_per_cent() -> None:
    found = quantiles("call_", [float(value) for value in range(1, 102)])
    assert found["call_p50"] == 51
    assert list(found) == ["call_p05", "call_p25", "call_p50", "call_p75", "call_p95", "call_p99"]


def test_a_sustained_run_is_judged_by_its_last_half() -> None:
    slices = [sustained.Slice(rate, 0, 0, 0) for rate in (100, 50, 90, 70)]
    assert sustained.share_kept(slices) == 0.8


def test_the_page_and_its_pictures_are_made_of_their_figures_alone() -> None:
    there = {path: (write.DOCS / path).read_text() for path in write.files(write.read())}
    assert there == write.files(write.read()), "run: python -m benchmarks --again"
    pictures = {path for path in there if path.endswith(".svg")}
    assert pictures == {str(path.relative_to(write.DOCS)) for path in write.DOCS.glob("images/benchmarks/*.svg")}


def test_the_page_names_what_could_not_be_measured_and_a_busy_machine() -> None:
    figures = {**write.read(), "missing": {"scale": "SystemExit: no end"}, "recovery": []}
    parts = {name: {**part, "load_before": 0.1, "load_after": 1.9} for name, part in figures["parts"].items()}
    text = words.page({**figures, "parts": parts})
    assert "- `scale: SystemExit: no end`" in text
    assert "## A worker is killed" not in text
    assert "The load was high" not in text
    busy = {**parts, "backlog": {**parts["backlog"], "load_before": 99.0}}
    assert "The load was high" in words.page({**figures, "parts": busy})


def test_the_page_names_what_it_leaves_out() -> None:
    figures = write.read()
    parts = {**figures["parts"]}
    parts["sustained"] = {**parts["sustained"], "plan": {**parts["sustained"]["plan"], "sustained": 45.0}}
    some = words.page({**figures, "parts": parts, "harness": {}})
    assert "a sustained load of more than 45 s" in some
    assert "--part harness --clone PATH" in some
    assert "arq" in some.partition("- other peers: ")[2].partition(". ")[0]
    parts["sustained"] = {**parts["sustained"], "plan": {**parts["sustained"]["plan"], "sustained": 600.0}}
    longest = {"sqlite": [{**figures["backlog"]["sqlite"][0], "waiting": 10_000_000}]}
    all_of_it = words.page({**figures, "parts": parts, "backlog": longest})
    assert "a sustained load of more than" not in all_of_it
    assert "backlogs of more than" not in all_of_it


def test_a_part_that_is_measured_again_leaves_the_others_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    before = write.read()
    monkeypatch.setattr(taking, "install", lambda plan, tell: None)
    monkeypatch.setattr(taking, "_versions", lambda: before["versions"])
    monkeypatch.setitem(taking.PARTS, "backlog", lambda plan, tell: {"sqlite": []})
    plan = replace(QUICK, parts=("backlog",), backlog=1_000)
    after = taking.take(plan, lambda line: None, before)
    assert after["backlog"] == {"sqlite": []}
    assert after["parts"]["backlog"]["plan"]["backlog"] == 1_000
    for name in {*before["parts"]} - {"backlog"}:
        assert after[name] == before[name]
        assert after["parts"][name] == before["parts"][name]


def test_a_part_that_fails_is_missing_and_no_longer_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(plan: PagePlan, tell: object) -> None:
        raise SystemExit("no end")

    monkeypatch.setattr(taking, "install", lambda plan, tell: None)
    monkeypatch.setattr(taking, "_versions", dict)
    monkeypatch.setitem(taking.PARTS, "scale", fail)
    after = taking.take(replace(QUICK, parts=("scale",)), lambda line: None, write.read())
    assert after["missing"]["scale"] == "SystemExit: no end"
    assert "scale" not in after


def test_every_environment_of_the_page_is_made_once_before_it_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(taking, "command", lambda system: made.append(system.name))
    taking.install(replace(FULL, clone="there"), lambda line: None)
    assert len(made) == len(set(made))
    assert {"litequeue", "huey", "bullmq", "platformatic", "dramatiq", "pgqueuer", "awa", "harness"} <= {
        name.partition(" ")[0] for name in made
    }


def test_an_axis_ends_at_a_round_number() -> None:
    assert [charts.round_above(value) for value in (0, 1, 1.01, 9.5, 27_213, 100)] == [1, 1, 1.2, 10, 30_000, 100]


def test_pictures_are_xml_without_a_script_and_know_dark_pages() -> None:
    drawn = bars("A & B", 'of "both"', {"jobs/s": [charts.Bar("<ours>", (1.0, 2.0), "3", ours=True)]})
    root = ElementTree.fromstring(drawn)
    assert root.attrib["aria-label"] == 'of "both"'
    assert "<script" not in drawn
    assert "prefers-color-scheme: dark" in drawn
    assert "<ours>" in [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]


def test_the_adapter_keeps_the_contract_of_the_third_party_harness() -> None:
    told = json.loads(adapter.MANIFEST.read_text())
    assert {"system", "db_name", "event_tables", "event_indexes", "extensions"} <= set(told)
    settings = contract.Settings.read({"PRODUCER_PACING": "harness", "JOB_WORK_MS": "5", "BENCH_INSTANCE_ID": "1"})
    assert settings.paced_by_harness
    assert settings.work == 0.005
    assert not settings.observes
    assert [contract.token(line) for line in ("ENQUEUE 5", "ENQUEUE x", "STOP 5", "")] == [5, 0, 0, 0]
    course = contract.Course()
    assert course.percentiles() == (0.0, 0.0, 0.0)
    course.waited(0.002)
    assert course.percentiles() == (2.0, 2.0, 2.0)


def test_what_the_third_party_harness_says_is_read_by_phase() -> None:
    metrics = {
        "enqueue_rate": {"median": 100.0}, "completion_rate": {"median": 90.0}, "claim_p95_ms": {"median": 7.0},
        "n_dead_tup@holdfast.job": {"peak": 30.0}, "n_dead_tup@holdfast.event": {"peak": 2.0},
    }  # fmt: skip
    killed = {"phase_type": "kill-worker", "metrics": metrics}
    after = {"phase_type": "recovery", "metrics": metrics, "jobs_lost": 0.0, "chaos_recovery_time_s": 4.0}
    found = harness_run.read_summary({"systems": {"holdfast": {"phases": {"killed": killed, "after": after}}}})
    assert [each["completed"] for each in found] == [90, 180]
    assert found[0]["dead_rows"] == 32
    assert found[0]["lost"] is None
    assert (found[1]["lost"], found[1]["recovery_s"]) == (0, 4)
    assert "--phase=held=idle-in-tx:20s" in harness_run.phases(20)
