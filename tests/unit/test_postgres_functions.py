"""The functions in the server: whoever changes the SQL raises their number."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.store.postgres import sql

RECORDED = {
    2: "aef5e4377cddc17f",
    3: "28db58d3d55c38d9",
    4: "298fae89c58eec36",
    5: "82c2b00270aa2c46",
    6: "f89782ac92ccf4d4",
    7: "dc5e173ff8673f71",
    8: "2f8ab5325ee4e82a",
    9: "92149673f6e475e3",
    10: "29221eaf769278dc",
    11: "0921a907589b0292",
    12: "73c87f2df38fb7d0",
    13: "bba310085c5e9150",
}
"""By `sql.MINOR`: the digest of the functions. Add a line for a new one; one that was released is never changed."""

INSIDE = {"clock", "join_enqueue", "holding", "hold", "recheck", "recheck_queue", "wake"}
"""Functions without settings of their own: they have no plan to keep, or the transaction has the settings (`steer`)."""


def test_a_change_of_the_functions_raises_their_number() -> None:
    """Of two Holdfasts with the same number, each would make its own functions anew whenever it opens the store."""
    assert max(RECORDED) == sql.MINOR, f"record {sql.MINOR}: {sql.digest()!r} here"
    assert RECORDED[sql.MINOR] == sql.digest(), (
        f"the SQL changed: raise sql.MINOR to {sql.MINOR + 1} if {sql.MINOR} was released, and record {sql.digest()!r}"
    )


def test_whatever_is_called_from_outside_holds_the_planner_to_the_indexes() -> None:
    """A plan that is kept stays in the functions that are called inside, whoever calls them next."""
    folder = Path(sql.__file__).parent
    outside = "".join(file.read_text() for file in folder.glob("*.py")) + sql.text("look.sql")
    called = set(re.findall(r"holdfast\.(\w+)\(", outside))
    heads = dict(re.findall(r"CREATE OR REPLACE FUNCTION holdfast\.(\w+)\((.*?)AS \$\$", sql.functions(), re.DOTALL))
    loose = {name for name in called & heads.keys() if sql.PLANNER[0] not in heads[name]}
    assert loose == INSIDE
