"""The envelope: what is refused at the producer, and what a damaged one is read as."""

from __future__ import annotations

import msgspec
import pytest

from holdfast import ConfigError
from holdfast.core.envelope import EMPTY, MOST_TAGS, Envelope, check_tags, opened, readable


def test_an_empty_envelope_takes_no_room() -> None:
    assert Envelope().encoded() is None
    assert opened(None) is EMPTY


def test_an_envelope_comes_back_as_it_was() -> None:
    envelope = Envelope(headers={"a": "ü"}, tags=("x", "y"), failed={"run": 1})
    assert opened(envelope.encoded()) == envelope


def test_a_field_that_is_not_known_here_is_left_out() -> None:
    assert opened(b'{"tags":["x"],"later":1}') == Envelope(tags=("x",))


def test_an_envelope_that_cannot_be_read_hides_nothing_else() -> None:
    assert readable(b"{no") is EMPTY
    assert readable(b'{"tags": 5}') is EMPTY
    with pytest.raises(msgspec.MsgspecError):
        opened(b"{no")


def test_the_tags_of_a_failure_job_are_those_of_the_job_that_failed() -> None:
    assert Envelope(tags=("x",)).of_failed({"run": 1}) == Envelope(tags=("x",), failed={"run": 1})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("vip", "tags='vip': a list of strings"),
        (5, "tags=5: a list of strings"),
        ([1], "tags=1: a tag is a string of at least one character"),
        ([""], "tags='': a tag is a string of at least one character"),
        (["a\0b"], "it holds a NUL character"),
        (["\ud800"], "half a surrogate pair"),
        ([str(number) for number in range(MOST_TAGS + 1)], "a job has at most 50 tags, and these are 51"),
    ],
)
def test_what_cannot_be_tags_is_refused(given: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("(", r"\(")):
        check_tags(given)


def test_a_tag_given_twice_counts_once_and_a_set_is_sorted() -> None:
    assert check_tags(["b", "a", "b"]) == ("b", "a")
    assert check_tags({"b", "a"}) == ("a", "b")
