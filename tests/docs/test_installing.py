"""Whatever people copy to install Holdfast installs ours: `holdfast` on PyPI is a project of other people."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast_queue
from holdfast import __version__
from holdfast.distribution import DISTRIBUTION, pip_install

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = {*PROJECT["optional-dependencies"], "extra"}
FOLDERS = ("src", "docs", "tests", "examples", "benchmarks", ".github", ".ci")
KINDS = {".py", ".md", ".txt", ".toml", ".yml", ".yaml", ".json", ".html", ".sh", ""}
FILES = [
    path
    for path in [*ROOT.iterdir(), *(file for folder in FOLDERS for file in (ROOT / folder).rglob("*"))]
    if path.is_file() and path.suffix in KINDS and path.name != Path(__file__).name and "__pycache__" not in path.parts
]
COMMAND = re.compile(
    r"(?:\bpip[x3]? install|\buv (?:add|pip install|tool install)|\bpoetry add|\buvx|\bpipx run)([^\n`#|&;]*)"
)
NAMED = re.compile(r"(?<![\w./-])holdfast(-queue)?\\?\[([\w,]+)\\?\]")
HINTS = {"src/holdfast/cli/develop/init.py", "src/holdfast/distribution.py", "src/holdfast_queue.py"}
"""Source that spells the command, of which `init` installs the user's own project; all other asks `pip_install`."""


def requirements(words: str) -> Iterator[str]:
    """Yield what a command installs, as far as it can be read."""
    try:
        found = shlex.split(words.replace("\\[", "[").replace("\\]", "]"))
    except ValueError:  # a quotation mark that is the sentence's, not the command's
        found = words.replace("'", " ").replace('"', " ").split()
    yield from (word.strip("'\"),.:;") for word in found if not word.startswith("-"))


def wrong_names(text: str) -> list[str]:
    """Return each requirement of a text that would install the other package, or an extra that there is not."""
    installed = [word for command in COMMAND.findall(text) for word in requirements(command)]
    others = [word for word in installed if re.fullmatch(r"holdfast(\[.*\])?([=<>~!].*)?", word)]
    for found in NAMED.finditer(text):
        if found[1] is None or not EXTRAS.issuperset(found[2].split(",")):
            others.append(found[0])
    return others


def test_no_text_names_the_package_of_other_people() -> None:
    found = {str(path.relative_to(ROOT)): wrong_names(path.read_text("utf-8")) for path in FILES}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("$ pip install holdfast", ["holdfast"]),
        ("run `uv add holdfast>=1`, or `pip install -U 'holdfast'`", ["holdfast>=1", "holdfast"]),
        (r"match='needs holdfast\[web\]'", [r"holdfast\[web\]"]),
        ("it needs holdfast-queue[redis,wep]", ["holdfast-queue[redis,wep]"]),
        ("pip install 'holdfast-queue[redis,web]', not somebody's; pip install /path/to/holdfast", []),
    ],
)
def test_the_search_finds_wrong_names(text: str, wrong: list[str]) -> None:
    assert wrong_names(text) == wrong


def test_the_search_reads_source_and_docs() -> None:
    assert {ROOT / "README.md", ROOT / "docs" / "guide" / "web.md", ROOT / "src" / "holdfast_queue.py"} <= set(FILES)


def literals(path: Path) -> Iterator[str]:
    """Yield the texts of a module, without its docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    described = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = {
        id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, described) and ast.get_docstring(node)
    }  # type: ignore[attr-defined]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def test_source_takes_the_command_from_one_place() -> None:
    sources = {str(path.relative_to(ROOT)): path for path in (ROOT / "src").rglob("*.py")}
    spelled = {name for name, path in sources.items() if any("pip install" in text for text in literals(path))}
    assert spelled == HINTS


def test_the_name_and_version_are_those_of_the_metadata() -> None:
    assert PROJECT["name"] == DISTRIBUTION == holdfast_queue.__name__.replace("_", "-")
    assert PROJECT["version"] == __version__
    assert PROJECT["scripts"] == {"holdfast": "holdfast_queue:main"}
    named = [word for each in PROJECT["optional-dependencies"].values() for word in each if word.startswith("holdfast")]
    assert {re.split(r"[\[<>=]", word)[0] for word in named} == {DISTRIBUTION}


def test_the_command_of_a_hint() -> None:
    assert pip_install() == "pip install 'holdfast-queue'"
    assert pip_install("redis", "web") == "pip install 'holdfast-queue[redis,web]'"


def test_the_readme_says_which_package_is_ours() -> None:
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert f"**The package is `{DISTRIBUTION}`**; the import name and the command are `holdfast`" in text
    assert "The package named `holdfast` on PyPI is another project" in text


def test_the_page_of_installing_names_every_extra() -> None:
    table = (ROOT / "docs" / "reference" / "installing.md").read_text("utf-8").split("## Extras")[1].split("## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == PROJECT["optional-dependencies"].keys()


NOT_IN_ALL = {"all", "spark", "java", "django", "fastapi", "flask", "docs", "test", "dev"}
"""Large ones, frameworks that are the user's own, and tools."""


def test_all_has_every_extra_but_a_few() -> None:
    (words,) = PROJECT["optional-dependencies"]["all"]
    named = set(NAMED.search(words)[2].split(","))  # type: ignore[index]
    assert named == PROJECT["optional-dependencies"].keys() - NOT_IN_ALL


def test_the_base_needs_two_packages() -> None:
    needed = [re.split(r"[<>=;]", word)[0] for word in PROJECT["dependencies"] if "win32" not in word]
    assert needed == ["cronsim", "msgspec"]
