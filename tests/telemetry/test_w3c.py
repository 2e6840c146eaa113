"""W3C trace context in headers, as text: headers may hold anything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.envelope import MOST_HEADER_BYTES, Envelope, readable
from holdfast.telemetry import trace_id
from holdfast.telemetry.traces.remote import extracted, span_context
from holdfast.telemetry.traces.stamp import Stamp
from holdfast.telemetry.traces.w3c import context_of, parsed

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE}-{SPAN}-01"
BAD = [
    "", "00", "x" * 10_000, GOOD.upper(), f" {GOOD}", f"{GOOD}\n", f"ff-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01",
    f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE}-{SPAN}-1", f"00-{TRACE}-{SPAN}-01-more", f"00-{TRACE[:-1]}é-{SPAN}-01",
    f"00-{TRACE}-{SPAN}-0x", "\x1b[31m", "<script>",
]  # fmt: skip


def test_a_trace_id_is_read_from_headers() -> None:
    assert trace_id({"traceparent": GOOD, "other": "x"}) == TRACE
    assert trace_id({}) is None
    assert parsed(GOOD) == (TRACE, SPAN, 1)
    assert trace_id({"traceparent": f"01-{TRACE}-{SPAN}-00-what-the-future-brings"}) == TRACE


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_traceparent_is_none_and_never_an_error(text: str) -> None:
    assert trace_id({"traceparent": text}) is None
    assert context_of({"traceparent": text, "tracestate": "a=b"}) is None
    assert span_context(text) is None
    assert extracted({"traceparent": text}) is None


@given(st.dictionaries(st.sampled_from(["traceparent", "tracestate", "baggage", "b3"]), st.text()))
def test_whatever_headers_hold_is_no_error(headers: dict[str, str]) -> None:
    extracted(headers)
    context_of(headers)
    Stamp({"traceparent": GOOD}).envelope(Envelope(headers=headers).encoded() if _is_text(headers) else None)


def _is_text(headers: dict[str, str]) -> bool:
    return not any("\ud800" <= character <= "\udfff" for text in headers.values() for character in text)


def test_only_what_the_w3c_asks_to_carry_is_carried() -> None:
    headers = {"traceparent": GOOD, "tracestate": "a=" + "b" * 600, "baggage": "user=ann", "mine": "1"}
    assert context_of(headers) == {"traceparent": GOOD, "baggage": "user=ann"}
    assert context_of({"traceparent": GOOD, "tracestate": "a=b", "baggage": "x" * 9000}) == {
        "traceparent": GOOD,
        "tracestate": "a=b",
    }


def test_a_callers_own_headers_stay_and_what_does_not_fit_is_left_out() -> None:
    stamp = Stamp({"traceparent": GOOD, "baggage": "b" * 1000})
    full = Envelope(headers={"mine": "x" * (MOST_HEADER_BYTES - 200)}, tags=("vip",))
    stamped = readable(stamp.envelope(full.encoded()))
    assert stamped.headers == {**full.headers, "traceparent": GOOD}
    assert stamped.tags == ("vip",)
    fuller = Envelope(headers={"mine": "x" * (MOST_HEADER_BYTES - 20)})
    assert readable(stamp.envelope(fuller.encoded())) == fuller


def test_a_context_that_the_caller_gave_is_left_alone() -> None:
    stamp = Stamp({"traceparent": GOOD})
    own = Envelope(headers={"traceparent": GOOD.replace(TRACE, "1" * 32)}).encoded()
    assert stamp.envelope(own) == own
    assert list(stamp.kept.values()) == [GOOD.replace(TRACE, "1" * 32)]
