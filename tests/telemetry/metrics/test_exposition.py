"""The text for Prometheus, read back with Prometheus's own parsers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from holdfast.telemetry.metrics.exposition import exposition, wants_open
from holdfast.telemetry.metrics.table import CALL, EVENTS, LOG_BYTES, SLOTS, STARTED, TABLE, WAIT, Metric
from holdfast.telemetry.metrics.tally import Distribution, MetricTally, Sample

HOSTILE = ['a"b', "a\\", "a\nb", "\r", "}", '"} 1', "\x1b[2J", "\u202e", "\ud800", "é", "", " ", "{{task}}", "<script>"]


def filled() -> MetricTally:
    tally = MetricTally()
    for name in HOSTILE:
        tally.cell(STARTED, name, "send").value += 3
        tally.histogram(WAIT, name, "send").add(0.3)
    tally.cell(EVENTS, "worker_started").value += 1
    tally.sources.append(lambda: [Sample(SLOTS, ("w", "free"), 7), Sample(LOG_BYTES, (), 10)])
    return tally


@pytest.mark.parametrize("open", [False, True], ids=["plain", "open"])
def test_prometheus_reads_it_back_whatever_the_labels_are(open: bool) -> None:
    tally = filled()
    text = exposition(tally.samples(), open=open)
    text.encode()
    read = {(each.name, *each.labels.values()): each.value for family in _parsed(text, open) for each in family.samples}
    for sample in tally.samples():
        if isinstance(sample.value, Distribution):
            assert read[f"{sample.metric.family}_count", *sample.labels] == 1
            assert read[f"{sample.metric.family}_bucket", *sample.labels, "0.25"] == 0
            assert read[f"{sample.metric.family}_bucket", *sample.labels, "0.5"] == 1
            assert read[f"{sample.metric.family}_bucket", *sample.labels, "+Inf"] == 1
        else:
            assert read[sample.metric.exposed, *sample.labels] == sample.value


def _parsed(text: str, open: bool) -> list[object]:
    return list((parse_open if open else parse_plain)(text))


@given(st.lists(st.text(), max_size=5))
@settings(max_examples=50, deadline=None)
def test_any_label_is_read_back_as_it_is_shown(names: list[str]) -> None:
    tally = MetricTally()
    for name in names:
        tally.cell(EVENTS, name)
    shown = {sample.labels[0] for sample in tally.samples()}
    read = {each.labels["event"] for family in parse_plain(exposition(tally.samples())) for each in family.samples}
    assert read == shown


@pytest.mark.parametrize("open", [False, True], ids=["plain", "open"])
def test_each_family_says_once_what_it_is(open: bool) -> None:
    families = {family.name: family for family in _parsed(exposition(filled().samples(), open=open), open)}
    wait = families["holdfast_job_wait_seconds"]
    assert (wait.type, wait.documentation) == ("histogram", WAIT.help)
    assert families["holdfast_jobs_started"].type == "counter"
    if open:
        assert (wait.unit, families["holdfast_log_size_bytes"].unit) == ("seconds", "bytes")


def test_the_names_of_prometheus_follow_from_those_of_opentelemetry() -> None:
    names = {metric.name: metric.exposed for metric in TABLE}
    assert names["holdfast.jobs.started"] == "holdfast_jobs_started_total"
    assert names["holdfast.job.wait"] == "holdfast_job_wait_seconds"
    assert names["holdfast.store.call.duration"] == CALL.family == "holdfast_store_call_duration_seconds"
    assert names["holdfast.log.size"] == "holdfast_log_size_bytes"
    assert names["holdfast.queue.jobs"] == "holdfast_queue_jobs"


def test_help_may_have_several_lines() -> None:
    odd = Metric(name="odd", kind="gauge", help='a "b"\nc\\d')
    for open in (False, True):
        (family,) = _parsed(exposition([Sample(odd, (), 1)], open=open), open)
        assert family.documentation == odd.help


def test_openmetrics_is_for_those_who_ask_for_it() -> None:
    assert wants_open("application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert not wants_open("text/plain")
    assert not wants_open("")
