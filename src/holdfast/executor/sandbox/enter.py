"""enter"""

from __future__ import annotations

from collections.abc import Callable

from ...core.sandbox import Sandbox


def enter(sandbox: Sandbox, source: list[str]) -> Callable[[BaseException], str]:
    raise NotImplementedError
