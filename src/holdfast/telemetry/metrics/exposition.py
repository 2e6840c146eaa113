"""Samples as text that Prometheus reads: its own format, and OpenMetrics where it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from .table import TABLE, Metric
from .tally import Distribution, Sample

PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_ORDER = {metric: number for number, metric in enumerate(TABLE)}
_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})
_HELP_OPEN = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_LABEL = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def wants_open(accept: str) -> bool:
    """Return whether an Accept header asks for OpenMetrics."""
    return "application/openmetrics-text" in accept.lower()


def exposition(samples: Iterable[Sample], *, open: bool = False) -> str:
    """Return the samples as text, grouped by metric in the order of the table; `open`: as OpenMetrics."""
    groups: dict[Metric, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.metric, []).append(sample)
    lines = list[str]()
    for metric in sorted(groups, key=lambda each: _ORDER.get(each, len(_ORDER))):
        lines += _head(metric, open)
        for sample in groups[metric]:
            lines += _lines(sample)
    if open:
        lines.append("# EOF")
    return "".join(f"{line}\n" for line in lines)


def _head(metric: Metric, open: bool) -> Iterator[str]:
    name = metric.family if open else metric.exposed
    yield f"# HELP {name} {metric.help.translate(_HELP_OPEN if open else _HELP)}"
    yield f"# TYPE {name} {metric.kind}"
    if open and (unit := metric.family.rpartition("_")[2]) in ("seconds", "bytes"):
        yield f"# UNIT {name} {unit}"


def _lines(sample: Sample) -> Iterator[str]:
    metric, labels = sample.metric, _labels(sample)
    if not isinstance(sample.value, Distribution):
        yield f"{metric.exposed}{_braces(labels)} {_number(sample.value)}"
        return
    counts = list(accumulate(sample.value.counts))
    for bound, count in zip((*map(_number, metric.bounds), "+Inf"), counts, strict=True):
        yield f"{metric.family}_bucket{_braces([*labels, _le(bound)])} {count}"
    yield f"{metric.family}_sum{_braces(labels)} {_number(sample.value.sum)}"
    yield f"{metric.family}_count{_braces(labels)} {counts[-1]}"


def _le(bound: str) -> str:
    return f'le="{bound}"'


def _labels(sample: Sample) -> list[str]:
    pairs = zip(sample.metric.labels, sample.labels, strict=True)
    return [f'{name}="{value.translate(_LABEL)}"' for name, value in pairs]


def _braces(labels: list[str]) -> str:
    return "{" + ",".join(labels) + "}" if labels else ""


def _number(value: float) -> str:
    return repr(float(value)) if isinstance(value, float) else str(value)
