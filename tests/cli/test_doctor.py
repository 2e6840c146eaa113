"""What the doctor says of servers that may lose jobs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from servers import cluster, postgres, shared, valkey_binary

from holdfast.cli.root import cli
from holdfast.store.postgres.doctor import findings

FIT = {
    "version": "18", "standby": False, "fsync": "on", "full_page_writes": "on", "synchronous_commit": "on",
    "connections": 3, "most": 100,
}  # fmt: skip


def diagnosed(url: str, code: int) -> dict[str, Any]:
    """Return the checks by name; the command ends with this code."""
    assert CliRunner().invoke(cli, ["migrate", "--url", url]).exit_code == 0
    result = CliRunner().invoke(cli, ["doctor", "--url", url, "--json"])
    assert result.exit_code == code, result.output
    return {check["name"]: check for check in json.loads(result.stdout)}


def test_a_postgres_that_does_not_write_through_is_a_problem() -> None:
    schema = f"doctor_{os.getpid()}"
    check = diagnosed(postgres().url(schema), code=1)["store: durability"]
    with psycopg.connect(postgres().url().partition("?")[0], autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA "{schema}" CASCADE')
    assert (check["ok"], check["warning"]) == (False, False)
    assert check["detail"].startswith(
        "fsync is off: a power cut or a crash of the machine may damage the whole database"
    )
    assert check["advice"].startswith("turn on fsync, full_page_writes, synchronous_commit")


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes", "synchronous_commit"])
def test_each_setting_alone_is_a_problem(setting: str) -> None:
    _, durability, _ = findings({**FIT, setting: "off"})
    assert (durability.verdict, durability.detail.partition(":")[0]) == ("problem", f"{setting} is off")


def test_a_fit_postgres_is_well() -> None:
    assert {found.verdict for found in findings(FIT)} == {"ok"}


def test_a_replica_and_a_full_server_are_problems() -> None:
    server, _, connections = findings({**FIT, "standby": True, "connections": 100})
    assert (server.verdict, server.advice) == ("problem", "connect to the primary")
    assert (connections.verdict, connections.detail) == ("problem", "100 of 100 in use")


def test_redis_without_an_append_only_file_is_a_warning() -> None:
    binary = valkey_binary()
    assert binary is not None
    url = f"{shared(binary).url}?namespace=doctor{os.getpid()}"
    check = diagnosed(url, code=0)["store: durability"]
    assert (check["ok"], check["warning"]) == (True, True)
    assert "loses every job and result since its last snapshot" in check["detail"]
    assert check["advice"].startswith("set appendonly yes")
    shown = CliRunner().invoke(cli, ["doctor", "--url", url])
    assert (shown.exit_code, "warning" in shown.stdout) == (0, True)


def test_a_file_that_is_not_written_through_is_a_warning(tmp_path: Path) -> None:
    checks = diagnosed(f"sqlite:///{tmp_path}/jobs.db?synchronous=off", code=0)
    check = checks["store: durability"]
    assert checks["store: file"]["detail"] == f"{tmp_path}/jobs.db"
    assert (check["warning"], check["detail"]) == (True, "synchronous OFF: a power cut may damage the file")


def test_a_wait_that_redis_cannot_keep_is_a_problem() -> None:
    binary = valkey_binary()
    assert binary is not None
    checks = diagnosed(f"{shared(binary).url}?namespace=doctor{os.getpid()}&wait_aof=1&wait_replicas=2", code=1)
    assert "wait_aof=1, and no append-only file" in checks["store: durability"]["detail"]
    assert "wait_replicas=2, and 0 are connected" in checks["store: replicas"]["detail"]


def test_every_node_of_a_cluster_is_looked_at() -> None:
    binary = valkey_binary()
    assert binary is not None
    nodes = cluster(binary).nodes
    with nodes[2].client() as client:
        client.config_set("maxmemory", "1gb")
        client.config_set("maxmemory-policy", "allkeys-lru")
        check = diagnosed(f"{cluster(binary).url}?namespace=doctor{os.getpid()}", code=1)["store: eviction"]
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 0)
    assert check["detail"] == "maxmemory-policy allkeys-lru: jobs may vanish"
