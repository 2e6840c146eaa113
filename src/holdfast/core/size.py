"""How many bytes a payload and a result may have."""

from __future__ import annotations

from ..errors import ConfigError, PayloadTooLarge

MEBIBYTE = 1024 * 1024
DEFAULT_SIZE = MEBIBYTE
"""The limit of payloads and results where no setting says another: a job says what to do, large data lie elsewhere."""
MOST_SIZE = 256 * MEBIBYTE
"""No setting allows more: a step of a store carries it as a whole, and everybody else waits for that."""


def check_size(value: object, name: str) -> int:
    """Return a limit in bytes, or raise when it cannot be one."""
    if type(value) is not int or not 1 <= value <= MOST_SIZE:
        raise ConfigError(f"{name}={value!r}: a number of bytes from 1 to {MOST_SIZE}")
    return value


def fit_payload(data: bytes, limit: int, whose: str, path: str = "payload") -> bytes:
    """Return the payload, or raise when it has more bytes than the limit."""
    if len(data) > limit:
        told = f"{path} of {whose} has {len(data)} bytes, and max_payload is {limit}: store it elsewhere and pass "
        raise PayloadTooLarge(
            f"{told}where it is, or raise max_payload of the task, its queue or the app",
            path=path, size=len(data), limit=limit,
        )  # fmt: skip
    return data


def fit_result(data: bytes, limit: int, whose: str, error: type[PayloadTooLarge] = PayloadTooLarge) -> bytes:
    """Return the result, or raise when it has more bytes than the limit."""
    if len(data) > limit:
        told = f"the result of {whose} has {len(data)} bytes, and max_result is {limit}: store it elsewhere and return "
        raise error(
            f"{told}where it is, or raise max_result of the task, its queue or the app",
            path="result", size=len(data), limit=limit,
        )  # fmt: skip
    return data
