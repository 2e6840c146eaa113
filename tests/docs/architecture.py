"""The parts of docs/architecture.md and docs/internals/writing-a-store.md that are made from the code.

    python tests/docs/architecture.py           prints the way of a call on each store
    python tests/docs/architecture.py --write   writes all parts into the pages (`make docs`)

A part stands between `<!-- made: name -->` and `<!-- end -->`. `test_architecture.py` compares them with the code.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "docs")]

from trace_call import Way, stores, trace  # noqa: E402

SOURCE = ROOT / "src" / "holdfast"
PAGE = ROOT / "docs" / "architecture.md"
STORE_PAGE = ROOT / "docs" / "internals" / "writing-a-store.md"
_PART = r"(<!-- made: {} -->\n)(.*?)(<!-- end -->)"


def part(name: str, page: Path = PAGE) -> str:
    """Return a part of a page."""
    found = re.search(_PART.format(re.escape(name)), page.read_text("utf-8"), re.DOTALL)
    assert found is not None, f"{page.relative_to(ROOT)} has no part {name!r}"
    return found[2]


def write(name: str, text: str, page: Path = PAGE) -> None:
    """Replace a part of a page."""
    pattern = re.compile(_PART.format(re.escape(name)), re.DOTALL)
    page.write_text(pattern.sub(lambda found: found[1] + text + found[3], page.read_text("utf-8")), "utf-8")


# --- the picture: layers, and what each package imports


def layers() -> str:
    """Return the layers that import-linter checks, uppermost first."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (contract,) = [each for each in config["tool"]["importlinter"]["contracts"] if each["type"] == "layers"]
    lines = [each.replace("holdfast.", "") for each in contract["layers"]]
    return "```text\n" + "\n".join(lines) + "\n```\n"


def packages() -> str:
    """Return a table of the packages: what each is, and which others it imports."""
    graph = grimp.build_graph("holdfast", cache_dir=None, exclude_type_checking_imports=True)
    names = sorted({_package(module) for module in graph.modules} - {""})
    imports: dict[str, set[str]] = {name: set() for name in names}
    for module in graph.modules:
        for target in graph.find_modules_directly_imported_by(module):
            if _package(module) != _package(target) != "" != _package(module):
                imports[_package(module)].add(_package(target))
    rows = [f"| `{name}` | {_purpose(name)} | {_list(imports[name])} |" for name in names]
    return "\n".join(["| package | what it is | imports |", "| --- | --- | --- |", *rows]) + "\n"


def _package(module: str) -> str:
    """Return what a row of the table stands for: a package, or one of the stores."""
    parts = module.split(".")[1:]
    return (
        ".".join(parts[:2])
        if parts[:1] == ["store"] and (SOURCE / "/".join(parts[:2])).is_dir()
        else ".".join(parts[:1])
    )


def _purpose(name: str) -> str:
    path = SOURCE / name.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return _first_line(ast.get_docstring(ast.parse(file.read_text("utf-8")))).rstrip(".")


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0].replace("|", "\\|")


def _list(names: set[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)) or "nothing"


# --- the contract


def methods() -> str:
    """Return a table of every method of the contract, by its part."""
    rows = []
    for file in sorted(
        (SOURCE / "store" / "contract").glob("*.py"), key=lambda file: (file.stem == "__init__", file.stem)
    ):
        for kind in ast.parse(file.read_text("utf-8")).body:
            if isinstance(kind, ast.ClassDef) and any(ast.unparse(base) == "Protocol" for base in kind.bases):
                rows += [f"| `{kind.name}` | `{name}` | {text} |" for name, text in _methods(kind)]
    return "\n".join(["| part | method | what is true when it returns |", "| --- | --- | --- |", *rows]) + "\n"


def _methods(kind: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for member in kind.body:
        if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
            yield member.name, _first_line(ast.get_docstring(member))


# --- the way of a call


def way_part(name: str) -> str:
    """Return the name of the part that shows the way of a call on a store."""
    return f"the way of a call on {name}"


def way_table(way: Way) -> str:
    """Return the way of a call as a table."""
    head = [f"{len(way.steps)} files.", "", "| file | passed first by | in |", "| --- | --- | --- |"]
    rows = [f"| `{step.file}` | {step.who} | `{step.function}` |" for step in way.steps]
    return "\n".join([*head, *rows]) + "\n"


def listed(name: str) -> list[str]:
    """Return the files that the page lists for a store."""
    return re.findall(r"^\| `([^`]+)`", part(way_part(name)), re.MULTILINE)


def ways() -> Iterator[tuple[str, Way]]:
    """Yield the way of a call on each store, by its name."""
    with tempfile.TemporaryDirectory() as folder:
        for name, url in stores(Path(folder)):
            yield name, trace(url)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the parts into docs/architecture.md")
    arguments = parser.parse_args()
    if arguments.write:
        write("layers", layers())
        write("packages", packages())
        write("methods", methods(), STORE_PAGE)
    for name, way in ways():
        print(f"{name}: {len(way.steps)} files")
        for step in way.steps:
            print(f"  {step.file:36} {step.who:15} {step.function}")
        for detour in sorted(way.detours):
            print("  comes back:", " -> ".join(detour))
        if arguments.write:
            write(way_part(name), way_table(way))


if __name__ == "__main__":
    main()
