"""Which tests run together on one core, and which are left out of `make quick`."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FIRST = ("spark", "chaos", "docs", "contract")
"""Folders whose groups take longest. They start first, so that both cores end at the same time."""
CONTRACT_PARTS = 8
"""Into how many groups the contract suite of each store is cut."""
WITHOUT_SPARK = ("test_driver_kill", "test_executors", "test_reach", "test_scan", "test_spark_runs")
"""Files of Spark's tests that do not share the one session."""
CHAOS = (
    "spark/test_driver_kill.py", "spark/test_executors.py", "spark/test_lake_azure.py", "spark/test_lake_chaos.py",
)  # fmt: skip
"""Files that `make chaos` runs and `make test` leaves out: each takes a minute of the machine, or needs npm."""
LEFT_OUT = (
    "chaos", "cli", "executor", "from", "spark", "supervisor", "store/redis", "store/postgres", "web/browser",
    "telemetry/metrics/test_prometheus.py",
)  # fmt: skip
"""Folders and files that `make quick` leaves out: their tests start servers, Spark, or many processes."""
SERVERS = ("redis", "valkey", "cluster", "postgres", "postgresql")
"""Parameters of a test that `make quick` leaves out: it runs on SQLite and in memory."""

BLOCK_PARTS = 4
"""Into how many groups the programs of the docs are cut, besides those that start Spark."""
LONG = (
    "test_a_serverless_function_runs_what_waits",
    "test_a_file_that_was_large_gives_its_room_back",
    "test_a_spoilt_row_harms_nobody_else",
    "test_an_example_runs",
    "test_every_program_runs",
    "test_one_process_at_full_speed_keeps_the_log_short",
    "test_the_code_of_the_readme_runs",
    "test_the_example_of_the_docs_runs",
    "test_the_pieces_of_a_page_run",
    "test_the_site_builds_without_a_warning_and_asks_no_other_host",
)
"""Tests elsewhere that `make quick` leaves out: they take seconds."""


def group(nodeid: str) -> str:
    """Return the group of a test. A group runs on one core, in order, and shares the fixtures of its modules."""
    path, _, name = nodeid.partition("::")
    file = Path(path)
    folder = file.parent.name
    if folder == "contract" and file.stem.startswith("test_contract_"):
        return f"{file.stem}-{zlib.crc32(name.encode()) % CONTRACT_PARTS}"
    if file.stem == "test_blocks":
        spark = any(page in name for page in ("spark", "dataframes", "lake"))
        return f"{file.stem}-{'spark' if spark else zlib.crc32(name.encode()) % BLOCK_PARTS}"
    if folder == "chaos":
        return nodeid  # minutes for each store
    if folder == "spark" and file.stem not in WITHOUT_SPARK:
        return folder  # one JVM
    return path


def rank(item: pytest.Item) -> int:
    """Return how late the group of a test starts."""
    folder = _folder(item).partition("/")[0]
    return FIRST.index(folder) if folder in FIRST else len(FIRST)


def is_chaos(path: Path) -> bool:
    """Return whether `make chaos` alone runs a file."""
    return str(path.relative_to(TESTS)) in CHAOS


def is_left_out(path: Path) -> bool:
    """Return whether `make quick` does not even look at a file or folder."""
    if path.stem.startswith("test_contract_"):
        return path.stem != "test_contract_memory"
    return str(path.relative_to(TESTS)) in LEFT_OUT


def is_quick(item: pytest.Item) -> bool:
    """Return whether `make quick` runs a test that it has looked at."""
    return getattr(item, "originalname", item.name) not in LONG and not _on_a_server(item)


def _on_a_server(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    return call is not None and any(
        isinstance(value, str) and value.lower() in SERVERS for value in call.params.values()
    )


def _folder(item: pytest.Item) -> str:
    return str(item.path.relative_to(TESTS).parent)
