"""Structures that the kernel reads: they lie as it expects, with nothing that a newer Python warns of."""

from __future__ import annotations

from pathlib import Path

import holdfast
from holdfast.executor.sandbox.landlock import _Beneath


def test_a_rule_lies_as_in_the_kernels_packed_structure() -> None:
    assert (_Beneath.allowed.offset, _Beneath.parent.offset, _Beneath.parent.size) == (0, 8, 4)


def test_no_structure_is_packed_without_a_layout() -> None:
    """From Python 3.14 on that is deprecated, and an error under `-W error`."""
    sources = [path.read_text() for path in Path(holdfast.__file__).parent.rglob("*.py")]
    assert not [text for text in sources if "_pack_ =" in text and "_layout_ =" not in text]
