"""Run the third-party harness once for the page: a held transaction, and a killed replica; and read its summary."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RATE = 200
REPLICAS = 2
ALONE = "kill-worker"
"""The kind of phase in which one replica is gone."""


def phases(seconds: float) -> list[str]:
    """The words for the harness: those of `idle_in_tx_saturation`, then those of `chaos_crash_recovery`, in one run."""
    kinds = {
        "steady": "clean", "held": "idle-in-tx", "released": "recovery",
        "killed": f"{ALONE}(instance=0)", "back": "start-worker(instance=0)", "recovered": "recovery",
    }  # fmt: skip
    found = [f"--phase={name}={kind}:{seconds:.0f}s" for name, kind in kinds.items()]
    return [f"--phase=warmup=warmup:{seconds:.0f}s", *found]


def take(clone: Path, seconds: float, tell: Callable[[str], None]) -> dict[str, Any]:
    """What the harness says of Holdfast."""
    tell("the third-party harness")
    load, results = os.getloadavg()[0], clone / "results"
    before = set(results.iterdir()) if results.exists() else set()
    words = [*phases(seconds), f"--producer-rate={RATE}", f"--replicas={REPLICAS}", "--sample-every=2"]
    command = [sys.executable, "-m", "benchmarks.third_party.harness", str(clone), "--own-server", "--", *words]
    subprocess.run(command, check=True, stdout=sys.stderr)
    (made,) = [folder for folder in set(results.iterdir()) - before if (folder / "summary.json").exists()]
    commit = subprocess.run(
        ["git", "-C", str(clone), "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    taken = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    read = read_summary(json.loads((made / "summary.json").read_text()))
    return {"commit": commit, "taken": taken, "load": load, "rate": RATE, "replicas": REPLICAS, "phases": read}


def read_summary(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The figures of each phase, of the metrics that the harness keeps."""
    return [_phase(name, each) for name, each in summary["systems"]["holdfast"]["phases"].items()]


def _phase(name: str, phase: Mapping[str, Any]) -> dict[str, Any]:
    metrics, running = phase["metrics"], 1 if phase["phase_type"] == ALONE else REPLICAS
    dead = sum(value["peak"] for metric, value in metrics.items() if metric.startswith("n_dead_tup@"))

    def median(metric: str) -> float:
        return float(metrics[metric]["median"]) if metric in metrics else 0.0

    return {
        "phase": name, "type": phase["phase_type"], "offered": median("enqueue_rate") * running,
        "completed": median("completion_rate") * running, "p95_ms": median("claim_p95_ms"), "dead_rows": dead,
        "lost": phase.get("jobs_lost"), "recovery_s": phase.get("chaos_recovery_time_s"),
    }  # fmt: skip
