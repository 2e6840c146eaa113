"""The functions in the server: whoever changes the SQL raises their number."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.store.postgres import sql

CODE = Path(sql.__file__).parent

RECORDED = {1: "38b7b07fd3bc5a74"}
"""By `sql.MINOR`: the digest of the functions. Add a line for a new one; one that was released is never changed."""

CALLED = set(
    re.findall(
        r"(?:call|value|statement|entry)\(\s*\"(\w+)\"", "".join(file.read_text() for file in CODE.rglob("*.py"))
    )
)
"""Functions that the store calls by name."""
INSIDE = {
    "append_action",
    "block_of",
    "clock",
    "held_runs",
    "lock_queues",
    "refresh_lane",
    "refresh_lanes",
    "wake",
    "has_tag",
    "unpacked",
}
"""Functions without settings of their own: they have no plan to keep, or the transaction has the settings (operate)."""


def test_a_change_of_the_functions_raises_their_number() -> None:
    """Of two Holdfasts with the same number, each would make its own functions anew whenever it opens the store."""
    assert max(RECORDED) == sql.MINOR, f"record {sql.MINOR}: {sql.digest()!r} here"
    assert RECORDED[sql.MINOR] == sql.digest(), (
        f"the SQL changed: raise sql.MINOR to {sql.MINOR + 1} if {sql.MINOR} was released, and record {sql.digest()!r}"
    )


def test_whatever_is_called_from_outside_holds_the_planner_to_the_indexes() -> None:
    """A plan that is kept stays in the functions that are called inside, whoever calls them next."""
    folder = Path(sql.__file__).parent
    outside = "".join([*(file.read_text() for file in folder.rglob("*.py")), *map(sql.text, sql.STATEMENTS)])
    called = set(re.findall(r"holdfast\.(\w+)\(", outside)) | CALLED
    heads = dict(re.findall(r"CREATE OR REPLACE FUNCTION holdfast\.(\w+)\((.*?)AS \$\$", sql.functions(), re.DOTALL))
    loose = {name for name in called & heads.keys() if sql.PLANNER[0] not in heads[name]}
    assert loose == INSIDE
