"""What the project says of itself in one place, it says in the others: versions, workflows, issue forms."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TEST: dict[str, Any] = yaml.safe_load((GITHUB / "workflows" / "test.yml").read_text("utf-8"))["jobs"]
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = [path for path in sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) if path.name != "config.yml"]
SCHEMAS = {
    "vendor.github-workflows": WORKFLOWS,
    "vendor.dependabot": [GITHUB / "dependabot.yml"],
    "vendor.github-issue-forms": FORMS,
    "vendor.github-issue-config": [GITHUB / "ISSUE_TEMPLATE" / "config.yml"],
}


def supported(what: str) -> list[str]:
    """Return the versions of the table in docs/support.md, without what stands in brackets."""
    (row,) = re.findall(rf"^\| {what} \| ([^|(]*)", (ROOT / "docs" / "support.md").read_text("utf-8"), re.MULTILINE)
    return [version.strip() for version in row.split(",")]


def test_python_versions_are_the_same_everywhere() -> None:
    prefix = "Programming Language :: Python :: 3."
    classified = [word.removeprefix(prefix) for word in PROJECT["classifiers"] if word.startswith(prefix)]
    assert supported("Python") == [f"3.{minor}" for minor in classified]
    assert TEST["gate"]["strategy"]["matrix"]["python"] == supported("Python")
    assert PROJECT["requires-python"] == f">={supported('Python')[0]}"


@pytest.mark.parametrize(("server", "name"), [("redis", "Redis"), ("valkey", "Valkey"), ("postgres", "PostgreSQL")])
def test_every_supported_server_is_in_the_matrix(server: str, name: str) -> None:
    matrix = TEST["servers"]["strategy"]["matrix"]["include"]
    assert [each["version"] for each in matrix if each["server"] == server] == supported(name)


def test_the_oldest_spark_of_the_extra_is_tested_beside_the_newest() -> None:
    (oldest,) = [
        each.removeprefix("pyspark>=") for each in PROJECT["optional-dependencies"]["spark"] if "pyspark" in each
    ]
    assert [step["run"] for step in TEST["spark"]["steps"] if "run" in step] == [f"make spark SPARK={oldest}"]
    assert f"PySpark {oldest} and newer" in (ROOT / "docs" / "support.md").read_text("utf-8")


def test_workflows_run_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for path in WORKFLOWS:
        jobs = yaml.safe_load(path.read_text("utf-8"))["jobs"]
        runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
        made = {words.split()[1] for words in runs if words.startswith("make ")}
        assert made, path.name
        assert made <= targets


def test_the_scripts_of_the_workflows_are_shell() -> None:
    subprocess.run(["sh", "-n", str(GITHUB / "server.sh")], check=True)
    done = subprocess.run(["sh", str(GITHUB / "server.sh"), "mongodb", "8"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "server.sh: there is no server mongodb: redis, valkey or postgres\n")


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_of_github_have_their_form(schema: str) -> None:
    words = ["--builtin-schema", schema, *map(str, SCHEMAS[schema])]
    done = subprocess.run([sys.executable, "-m", "check_jsonschema", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_workflows_give_away_no_rights() -> None:
    words = [str(Path(sys.executable).parent / "zizmor"), "--offline", "--persona", "pedantic", "--quiet", str(GITHUB)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_servers_of_the_matrix_run_folders_that_are_there() -> None:
    (command,) = [step["run"] for step in TEST["servers"]["steps"] if step.get("run", "").startswith("make")]
    folders = re.findall(r"tests/\w+", command)
    assert len(folders) == 2
    assert all((ROOT / folder).is_dir() for folder in folders)
