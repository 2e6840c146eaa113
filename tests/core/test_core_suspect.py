"""In what company a job is tried again, and of which stall it fails."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.suspect import company_after


@pytest.mark.parametrize(
    ("stalls", "limit", "company", "after"),
    [
        (1, 3, 10, 5), (2, 3, 5, 1), (3, 3, 1, None), (3, 3, 2, 1), (1, 1, 10, 1), (1, 1, 1, None), (9, None, 2, 1),
        (9, None, 1, 1), (1, 10, 1000, 500), (9, 10, 1000, 1), (5, 3, 1, None),
    ],
)  # fmt: skip
def test_half_the_company_then_none(stalls: int, limit: int | None, company: int, after: int | None) -> None:
    assert company_after(stalls, limit, company) == after


@given(limit=st.none() | st.integers(1, 20), slots=st.integers(1, 10_000))
def test_nobody_fails_in_company_and_whoever_stalls_always_is_alone_soon(limit: int | None, slots: int) -> None:
    company, stalls = slots, 0
    while company > 1:
        stalls += 1
        after = company_after(stalls, limit, company)
        assert after is not None, "failed in company"
        assert after < company
        company = after
    assert stalls <= slots.bit_length()
    if limit is not None:
        assert stalls <= max(1, limit - 1)
        assert company_after(max(limit, stalls + 1), limit, 1) is None
