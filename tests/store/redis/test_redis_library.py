"""The library of server-side functions: whoever changes the Lua raises its version."""

from __future__ import annotations

import hashlib

from holdfast.store.redis.connection import library

RECORDED = {
    4: "257f91c4bbff889b",
    5: "e8d4737fa9060f06",
    6: "b7ace78e47532c7c",
    7: "b92cab8dede50b28",
    8: "1119f5d3c10924c7",
    9: "37bf936085bde27f",
    10: "cc5fd20ec3ddb466",
    11: "55be2b135052dbde",
    12: "e28037268252feaf",
    13: "5a5e268357ae2807",
    14: "92d65277119c070c",
    15: "112644041449c632",
    16: "b2be9eb0e34ce95b",
    17: "4a44ff9de5174e6a",
    18: "5f1cdc49c92aee3d",
    19: "f6eca0fd4eadb99d",
    20: "407fe12c0d94ca9a",
    21: "3b792c135cd17aa9",
    22: "5709fc8cbcda7f61",
    23: "cb9e4ff0bb7f7aee",
    24: "3e3c0e9da2efac21",
    25: "cbf115de00c4559c",
    26: "5b58bf833ec3a4ce",
    27: "aebbce7311dc1468",
    28: "2e2c2907216578a6",
    29: "05689ebaad5c3df4",
    30: "b17f9922184aa52c",
    31: "9c876354fa0c0a04",
    32: "02368567fdcfdf13",
    33: "a1b141b2f46b13a7",
    34: "659441b41eeceaea",
    35: "a8dd008ff2e2599d",
}
"""By `library.MINOR`: the digest of its source. Add a line for a new one; one that was released is never changed."""


def test_a_change_of_the_lua_raises_the_version() -> None:
    """A server keeps the library that it has until one with a higher version comes."""
    digest = hashlib.sha256(library.source().encode()).hexdigest()[:16]
    assert max(RECORDED) == library.MINOR, f"record {library.MINOR}: {digest!r} here"
    assert RECORDED[library.MINOR] == digest, (
        f"the Lua changed: raise library.MINOR to {library.MINOR + 1}, or servers that have {library.MINOR} keep it"
    )
