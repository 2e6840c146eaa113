"""The tree of errors: drawn in its docstring, and as it is."""

from __future__ import annotations

import re

import pytest

from holdfast import errors
from holdfast.core.job import ErrorRecord
from holdfast.errors import (
    Aborted,
    ConfigError,
    HoldfastError,
    JobFailed,
    JobMissing,
    JobTimeout,
    MissingExtra,
    PayloadError,
    Snooze,
    StoreError,
)
from holdfast.executor.failure import MOST_MESSAGE, MOST_TRACEBACK, describe


def drawn() -> dict[str, str]:
    """Return each name in the docstring's tree with its parent's."""
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^((?:│   |    )*)(?:├── |└── )?(\w+)(?:\s\s|$)", line)
        if not found or not hasattr(errors, found[2]):
            continue
        depth = len(found[1]) // 4 + (1 if "── " in line else 0)
        path[depth:] = [found[2]]
        parents[found[2]] = path[depth - 1] if depth else ""
    return parents


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    real = {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, HoldfastError) and kind is not HoldfastError
    }
    tree = drawn()
    assert set(tree) - {"HoldfastError"} == set(real)
    for name, kind in real.items():
        assert kind.__mro__[1].__name__ == tree[name] or tree[name] in {base.__name__ for base in kind.__bases__}, name


@pytest.mark.parametrize(
    ("ours", "builtin"),
    [
        (ConfigError, ValueError),
        (MissingExtra, ImportError),
        (PayloadError, TypeError),
        (JobTimeout, TimeoutError),
        (JobMissing, LookupError),
    ],
)
def test_our_errors_are_what_python_programmers_expect(ours: type[Exception], builtin: type[Exception]) -> None:
    assert issubclass(ours, builtin)
    assert issubclass(ours, HoldfastError)


def test_errors_carry_what_they_are_about() -> None:
    error = JobFailed("x", error="record", queue="q", job_id="i", run=3)
    assert (error.error, error.queue, error.job_id, error.run) == ("record", "q", "i", 3)
    assert PayloadError("x", path="payload.a").path == "payload.a"
    assert Aborted("timeout").reason == "timeout"
    assert not issubclass(StoreError, ConfigError)
    assert Snooze(after=5).after == 5


def test_a_stored_error_has_type_message_traceback_and_fields() -> None:
    class Odd(Exception):
        def __init__(self) -> None:
            super().__init__("x" * 10_000)
            self.code, self.items, self.secret, self._private = 7, ["a"], object(), 1

    try:
        raise Odd
    except Odd as error:
        record = describe(error)
    assert record.type.endswith(
        "test_error_tree.test_a_stored_error_has_type_message_traceback_and_fields.<locals>.Odd"
    )
    assert len(record.message) == MOST_MESSAGE
    assert record.fields == {"code": 7, "items": ["a"]}
    assert len(record.traceback) <= MOST_TRACEBACK


def test_errors_of_one_kind_have_one_signature_whatever_they_mention() -> None:
    def record(message: str, line: int = 5) -> ErrorRecord:
        trace = f'File "/a/b/shop.py", line {line}, in order\n'
        return ErrorRecord(type="ValueError", message=message, traceback=trace)

    assert record("no order 17 of 'ann'").signature == record("no order 18 of 'bob'", line=9).signature
    assert record("no order 17").signature != record("no such user 17").signature
