"""What the page keeps of a part that is measured on some stores alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.page.plan import OF_EACH_STORE, STORES, PagePlan


@dataclass(frozen=True)
class Others:
    """What was taken before of the stores that a run leaves out."""

    figures: Any = None
    """By store; or rows that name theirs."""
    taken: Mapping[str, str] = field(default_factory=dict)
    """By store, when."""


def others(plan: PagePlan, name: str, before: Mapping[str, Any]) -> Others:
    """The figures of a part in other stores than the plan's, if they were taken in the same sizes."""
    known, stamp = before.get(name), before.get("parts", {}).get(name, {})
    if name not in OF_EACH_STORE or not known or _sizes(stamp["plan"]) != _sizes(asdict(plan)):
        return Others()
    found: Any
    if isinstance(known, dict):
        found = {store: each for store, each in known.items() if store not in plan.stores}
        stores = list(found)
    else:
        found = [row for row in known if row["store"] not in plan.stores]
        stores = [row["store"] for row in found]
    return Others(found, {store: stamp.get("others", {}).get(store, stamp["taken"]) for store in stores})


def beside(taken: Any, kept: Others) -> Any:
    """The figures that were taken and those that were kept, store by store in the order of the page."""
    if not kept.taken:
        return taken
    if isinstance(taken, dict):
        both = {**kept.figures, **taken}
        return {store: both[store] for store in STORES if store in both}
    return sorted([*kept.figures, *taken], key=lambda row: STORES.index(row["store"]))


def _sizes(plan: Mapping[str, Any]) -> Any:
    """As they are once they were written, without what says which parts are measured, and where."""
    return json.loads(json.dumps({**plan, "stores": None, "parts": None, "clone": None}))
