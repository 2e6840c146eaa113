"""The code of an app: sent by the driver, imported by an executor."""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import zipfile
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ..app.app import Holdfast
from ..app.loader import load_app
from ..app.task import TaskRegistry
from ..errors import ConfigError
from .session import cache_folder

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


log = logging.getLogger("holdfast")


def absolute_path(target: str) -> str:
    """Return the import path of an app, with the whole path where it names a file."""
    place, colon, name = target.rpartition(":")
    if not colon or "/" in name:
        place, colon, name = target, "", ""
    return f"{os.path.abspath(place)}{colon}{name}" if place.endswith(".py") else target


def add_to_path(folder: str) -> None:
    """Let modules of a folder be imported, if it exists on this machine."""
    if os.path.isdir(folder) and folder not in sys.path:
        sys.path.insert(0, folder)


def app_in_executor(target: str, folder: str) -> Holdfast:
    """Return the app: from the driver's folder if it exists on this machine, else from what Spark or pip brought."""
    add_to_path(folder)
    place, colon, name = target.rpartition(":")
    if place.endswith(".py") and not os.path.exists(place):
        target = f"{Path(place).stem}{colon}{name}"
    elif not place.endswith(".py"):
        _add_sent(place.partition(".")[0])
    return load_app(target)


def _add_sent(top: str) -> None:
    """Let a package that `send_app` sent be imported."""
    from pyspark import SparkFiles

    archive = os.path.join(SparkFiles.getRootDirectory(), f"{top}.zip")
    if os.path.exists(archive) and archive not in sys.path:
        sys.path.append(archive)


def send_app(spark: SparkSession, target: str) -> None:
    """Send the app's module or package to the executors. What pip has installed must be installed there, too."""
    place, colon, _ = target.rpartition(":")
    place = place if colon else target
    if place.endswith(".py"):
        spark.sparkContext.addPyFile(os.path.abspath(place))
        return
    top, folders = _found(target, place)
    if {"site-packages", "dist-packages"} & set(folders[0].parts):
        return
    if hasattr(top, "__path__"):
        _send(spark.sparkContext, top.__name__, folders)
    else:
        spark.sparkContext.addPyFile(str(top.__file__))


def folder_of(target: str) -> str:
    """Return the folder from which the driver imports the app's module; empty for a path that names a file."""
    place = target.rpartition(":")[0] or target
    return "" if place.endswith(".py") else str(_found(target, place)[1][0].parent)


def _found(target: str, place: str) -> tuple[ModuleType, list[Path]]:
    """Return the outermost package or module of a path, and its folders, or its file."""
    top = import_module(place.partition(".")[0])
    file = getattr(top, "__file__", None)
    if hasattr(top, "__path__"):
        return top, [Path(folder) for folder in top.__path__]
    if file is None:
        raise ConfigError(f"{target!r}: {top.__name__} has no file that Spark could send to its executors")
    return top, [Path(file)]


_sent: dict[tuple[str, str], str] = {}
"""The digest of each package that was sent, by application and name."""


def _send(context: SparkContext, name: str, folders: list[Path]) -> None:
    """Send a package as a zip, once for each application: Spark refuses a second file of the same name."""
    files = {str(file.relative_to(folder.parent)): file for folder in folders for file in sorted(folder.rglob("*.py"))}
    digest = hashlib.blake2s(b"".join(file.read_bytes() for file in files.values())).hexdigest()
    before = _sent.setdefault((context.applicationId, name), digest)
    if before != digest:
        log.warning("app_code_stale: %s has changed since it was sent to the executors, which keep the old code", name)
    archive = cache_folder.temporary() / context.applicationId / f"{name}.zip"
    if archive.exists():
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w") as made:
        for inner in sorted({f"{parent}/" for each in files for parent in Path(each).parents} - {"./"}):
            made.writestr(inner, b"")  # a package without a file of its own is found by its folder
        for inner, file in files.items():
            made.write(file, inner)
    context.addPyFile(str(archive))


def import_path_of(registry: TaskRegistry, module: str) -> str | None:
    """Return the import path of the app of a registry, or `None` where an executor could not import it."""
    if module == "__main__":  # a script or a notebook: importing it would run it again
        return None
    apps = {name: value for name, value in vars(sys.modules[module]).items() if isinstance(value, Holdfast)}
    names = [name for name, app in apps.items() if app.registry is registry]
    return f"{module}:{names[0]}" if names else None
