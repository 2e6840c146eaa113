"""The files of the deployment guide: valid by their schemas, with commands and metrics that there are."""

from __future__ import annotations

import configparser
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from blocks import DOCS, ROOT
from consoles import parse

from holdfast.cli.parse import seconds
from holdfast.telemetry.metrics.table import TABLE

sys.path.insert(0, str(DOCS / "tools"))

import included

DEPLOY = ROOT / "examples" / "deploy"
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
OWN_KINDS = {"keda.yaml"}
"""Resources that Kubernetes itself does not know."""


def compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def containers(resource: Any) -> Iterator[dict[str, Any]]:
    """Yield every container of a resource, however deep."""
    if isinstance(resource, dict):
        yield from [*resource.get("containers", []), *resource.get("initContainers", [])]
        for value in resource.values():
            yield from containers(value)


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield every command line of the files, without `holdfast`."""
    for name, service in compose()["services"].items():
        if "command" in service:
            yield f"compose.yaml {name}", service["command"]
    for path in KUBERNETES:
        for container in containers(yaml.safe_load(path.read_text())):
            yield f"{path.name} {container['name']}", container["args"]
    for path in UNITS:
        yield path.name, unit(path)["Service"]["ExecStart"].split()[1:]
    docker = re.search(r"^CMD (\[.*\])$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert docker is not None
    yield "Dockerfile", json.loads(docker[1])


def unit(path: Path) -> configparser.ConfigParser:
    read = configparser.ConfigParser(interpolation=None)
    read.optionxform = str  # type: ignore[assignment,method-assign]
    read.read_string(path.read_text())
    return read


@pytest.mark.parametrize(
    ("where", "words"), list(commands()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_command_is_one_that_holdfast_takes(where: str, words: list[str]) -> None:
    parse(words)


@pytest.mark.parametrize(
    "path", [path for path in KUBERNETES if path.name not in OWN_KINDS], ids=lambda path: path.name
)
def test_kubernetes_knows_every_field(path: Path) -> None:
    kubernetes_validate.validate(yaml.safe_load(path.read_text()), kubernetes_validate.latest_version(), strict=True)


def test_compose_knows_every_field() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*command, str(DEPLOY / "compose.yaml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_autoscaling_asks_for_metrics_that_there_are() -> None:
    scaled = yaml.safe_load((DEPLOY / "kubernetes" / "keda.yaml").read_text())
    queries = [trigger["metadata"]["query"] for trigger in scaled["spec"]["triggers"]]
    hpa = yaml.safe_load((DEPLOY / "kubernetes" / "hpa.yaml").read_text())
    asked = {each["external"]["metric"]["name"] for each in hpa["spec"]["metrics"]}
    asked |= {name for query in queries for name in re.findall(r"holdfast_\w+", query)}
    assert asked <= {metric.exposed for metric in TABLE}
    assert "holdfast_queue_oldest_ready_age_seconds" in asked


def test_a_worker_has_time_to_drain_before_it_is_killed() -> None:
    worker = yaml.safe_load((DEPLOY / "kubernetes" / "worker.yaml").read_text())["spec"]["template"]["spec"]
    drain = seconds(option(worker["containers"][0]["args"], "--drain"))
    assert worker["terminationGracePeriodSeconds"] > drain + 3 * 5
    service = compose()["services"]["worker"]
    assert seconds(service["stop_grace_period"]) > seconds(option(service["command"], "--drain")) + 3 * 5
    assert float(unit(DEPLOY / "systemd" / "holdfast-worker@.service")["Service"]["TimeoutStopSec"]) > 30 + 3 * 5


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def test_probes_ask_the_port_that_is_served() -> None:
    for path in KUBERNETES:
        for container in containers(yaml.safe_load(path.read_text())):
            for port in container.get("ports", []):
                flag = "--metrics-port" if "--metrics-port" in container["args"] else "--port"
                assert option(container["args"], flag) == str(port["containerPort"])
            probed = [container[kind]["httpGet"]["port"] for kind in container if kind.endswith("Probe")]
            assert set(probed) <= {port["name"] for port in container.get("ports", [])}


def test_a_serverless_function_runs_what_waits(tmp_path: Path) -> None:
    program = """
import types, asyncio
from shop import app, send
import lambda_handler
async def some():
    async with app:
        await send.enqueue_many(send.args(f"customer-{n}") for n in range(30))
asyncio.run(some())
context = types.SimpleNamespace(get_remaining_time_in_millis=lambda: 60_000)
print(lambda_handler.handler({}, context)["completed"])
"""
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(DEPLOY)}, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "30"), done.stderr


@pytest.mark.parametrize("page", included.pages(), ids=lambda page: page.name)
def test_a_page_shows_files_as_they_are(page: Path) -> None:
    assert page.read_text() == included.shown(page.read_text()), "run: python docs/tools/included.py"
