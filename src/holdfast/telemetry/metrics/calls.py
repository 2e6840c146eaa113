"""What is counted of calls to the store, by workers and by producers."""

from __future__ import annotations

from ..observer import StoreCall
from .table import CALL, ERRORS
from .tally import Histogram, MetricTally


class CallCounts:
    """How long each call to the store took, and how many failed, by name."""

    def __init__(self, tally: MetricTally) -> None:
        self._tally = tally
        self._by_name: dict[str, Histogram] = {}

    def add(self, call: StoreCall) -> None:
        """Count one call."""
        known = self._by_name.get(call.name)
        if known is None:
            known = self._by_name[call.name] = self._tally.histogram(CALL, call.name)
            self._tally.cell(ERRORS, call.name)
        known.add(call.seconds)
        if call.error is not None:
            self._tally.cell(ERRORS, call.name).value += 1
