"""The arithmetic of `python -m benchmarks.telemetry`: no servers, no clocks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks.telemetry import pairs
from benchmarks.telemetry.__main__ import main, missed, verdict
from benchmarks.telemetry.measured import Figures
from benchmarks.telemetry.variants import COMPARISONS, LOGS


def rounds(*figures: tuple[float, float]) -> list[dict[str, Figures]]:
    """Rates and processor times of drains."""
    return [{"drain": Figures(rate, cpu, 0.0)} for rate, cpu in figures]


def test_each_round_measures_every_variant_and_every_second_one_goes_backwards() -> None:
    order: list[str] = []

    def take(name: str) -> dict[str, Figures]:
        order.append(name)
        return {"drain": Figures(1.0, len(order), 0.0)}

    told: list[str] = []
    found = pairs.compare(["off", "logs"], 2, take, told.append)
    assert order == ["off", "logs", "logs", "off"]
    assert [each["drain"].cpu for each in found["off"]] == [1, 4]
    assert told == ["round 1: off 1/s 1.0 us, logs 1/s 2.0 us", "round 2: off 1/s 4.0 us, logs 1/s 3.0 us"]


def test_a_ratio_is_the_median_of_the_rounds_own_with_the_middle_half_of_them() -> None:
    found = {
        "off": rounds((100, 10), (50, 20), (80, 10), (100, 10)),
        "on": rounds((90, 12.5), (50, 20), (60, 20), (95, 10)),
    }
    assert pairs.by_rate(found, "off", "on", "drain") == pytest.approx((0.925, 0.8625, 0.9625))
    assert pairs.by_cpu(found, "off", "on", "drain") == pytest.approx((0.9, 0.725, 1.0))
    assert str(pairs.by_cpu(found, "off", "on", "drain")) == "0.900 (0.73 to 1.00)"
    assert pairs.ratio([0.5, 1.0]) == (0.75, 0.5, 1.0)
    assert pairs.median(found, "on", "drain") == Figures(75, 16.25, 0)


def test_a_target_is_missed_by_the_rate_where_the_rounds_agree() -> None:
    assert verdict(pairs.Ratio(0.95, 0.9, 1.2), 0.9) == "pass"
    assert verdict(pairs.Ratio(0.85, 0.8, 0.89), 0.9) == "fail"
    assert verdict(pairs.Ratio(0.95, 0.8, 1.2), 0.9) == verdict(pairs.Ratio(0.85, 0.8, 0.9), 0.9) == "unsure"
    found = {"off": rounds((100, 9), (100, 9)), "metrics and job logs": rounds((95, 20), (80, 20))}
    assert missed(found, LOGS) == []
    found["metrics and job logs"] = rounds((85, 9), (80, 9))
    assert missed(found, LOGS) == ["metrics and job logs"]


@pytest.mark.parametrize("what", COMPARISONS)
def test_targets_and_headers_are_of_variants_that_exist(what: str) -> None:
    compared = COMPARISONS[what]
    assert {*compared.targets, *compared.headers} <= set(compared.variants)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--what", "off"], "--against COMMIT goes with --what off, which needs it"),
        (["--against", "HEAD"], "--against COMMIT goes with --what off, which needs it"),
        (["--only", "smoke"], "--only smoke: one of off, observer, job logs"),
    ],
)
def test_what_the_command_refuses(arguments: list[str], words: str) -> None:
    answer = CliRunner().invoke(main, arguments)
    assert answer.exit_code == 2
    assert words in " ".join(answer.output.split())
