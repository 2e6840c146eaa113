"""`holdfast init`: a small project that runs, is typed and has tests."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.resources import files
from pathlib import Path
from string import Template

import click

from ...distribution import DISTRIBUTION
from ...errors import ConfigError
from ..command import Command, NotDone
from ..output import say

FILES = {
    "pyproject.toml": "pyproject.toml.in",
    "README.md": "README.md.in",
    ".gitignore": "gitignore.in",
    "$name/__init__.py": "package.py.in",
    "$name/app.py": "app.py.in",
    "$name/tasks.py": "tasks.py.in",
    "tests/test_tasks.py": "test_tasks.py.in",
}
"""The files of a project, and the templates that they are made from."""


@click.command(cls=Command)
@click.argument("folder", default=".", metavar="[DIR]")
@click.option("--name", metavar="NAME", help="The package; default: the name of the folder.")
@click.option(
    "--store",
    default="sqlite:///jobs.db",
    show_default=True,
    metavar="URL",
    help="The store, unless HOLDFAST_URL is set.",
)
def init(folder: str, name: str | None, store: str) -> None:
    """Write a small project: an app, tasks, and tests that pass.

    Nothing that is there is overwritten.

    \b
    Examples:
      holdfast init shop
      holdfast init . --name shop --store redis://localhost:6379/0
    """
    place = Path(folder).resolve()
    package = check_name(name) if name is not None else check_name(_name_of(place), folder)
    made = project_files(package, store)
    if there := [path for path in made if (place / path).exists()]:
        raise ConfigError(f"init: {place / there[0]} is there already, and nothing was written: choose another folder")
    try:
        for path, text in made.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_text(text)
    except OSError as error:  # a file of that name, a folder that cannot be written, a full disk
        raise NotDone(f"init: {error.filename}: {error.strerror}: choose another folder") from None
    begin = [] if place == Path.cwd() else [f"  cd {folder}"]
    say(f"made {package} in {place}: {', '.join(made)}")
    click.echo("\n".join(["next:", *begin, "  pip install -e '.[dev]'", "  pytest", f"  {_worker(package)}"]))


def project_files(package: str, store: str) -> dict[str, str]:
    """Return the text of each file of a new project."""
    words = {
        "name": package, "store": store, "worker": _worker(package), "app": f"{package}.tasks:app",
        "distribution": DISTRIBUTION,
    }  # fmt: skip
    templates = files(__package__) / "template"
    return {
        Template(path).substitute(words): Template((templates / source).read_text()).substitute(words)
        for path, source in FILES.items()
    }


def _worker(package: str) -> str:
    return f"holdfast worker {package}.tasks:app --reload"


def _name_of(place: Path) -> str:
    return re.sub(r"\W+", "_", place.name.lower()).strip("_")


def check_name(name: str, folder: str | None = None) -> str:
    """Return the name of a package, or raise for one that cannot be imported or hides another."""
    given = f"--name={name!r}" if folder is None else f"the folder {folder!r} makes {name!r}"
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ConfigError(f"init: {given}, which is no name for a package: give one, such as --name shop")
    if name in sys.stdlib_module_names or name in ("holdfast", "tests"):
        raise ConfigError(f"init: {given}, which would hide a module of that name: give another, such as --name shop")
    return name
