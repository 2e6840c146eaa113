"""The same app and the same store, seen from the driver and from an executor."""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from ..app import Holdfast
from ..errors import ConfigError
from ..find import load_app
from ..registry import Registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def absolute_target(target: str) -> str:
    """Return the import path of an app, with the whole path where it names a file."""
    place, colon, name = target.rpartition(":")
    if not colon or "/" in name:
        place, colon, name = target, "", ""
    return f"{os.path.abspath(place)}{colon}{name}" if place.endswith(".py") else target


def app_in_executor(target: str, folder: str) -> Holdfast:
    """Return the app, from the driver's folder where that is here, else from what Spark or pip brought."""
    if os.path.isdir(folder) and folder not in sys.path:
        sys.path.insert(0, folder)
    place, colon, name = target.rpartition(":")
    if place.endswith(".py") and not os.path.exists(place):
        target = f"{Path(place).stem}{colon}{name}"
    elif not place.endswith(".py"):
        _see_shipped(place.partition(".")[0])
    return load_app(target)


def _see_shipped(top: str) -> None:
    """A package that `ship` sent can be imported."""
    from pyspark import SparkFiles

    archive = os.path.join(SparkFiles.getRootDirectory(), f"{top}.zip")
    if os.path.exists(archive) and archive not in sys.path:
        sys.path.append(archive)


def ship(spark: SparkSession, target: str) -> None:
    """Executors can import the app's module. What is installed by pip must be installed there, too."""
    place, colon, _ = target.rpartition(":")
    place = place if colon else target
    if place.endswith(".py"):
        spark.sparkContext.addPyFile(os.path.abspath(place))
        return
    top = import_module(place.partition(".")[0])
    file = getattr(top, "__file__", None)
    if file is None:
        raise ConfigError(f"{target!r}: {top.__name__} has no file that Spark could send to its executors")
    if "site-packages" in Path(file).parts or "dist-packages" in Path(file).parts:
        return
    package = hasattr(top, "__path__")
    spark.sparkContext.addPyFile(_zipped(Path(file).parent) if package else file)


def _zipped(package: Path) -> str:
    made = os.path.join(tempfile.mkdtemp(prefix="holdfast-ship-"), f"{package.name}.zip")
    with zipfile.ZipFile(made, "w") as archive:
        for file in sorted(package.rglob("*.py")):
            archive.write(file, str(file.relative_to(package.parent)))
    return made


def target_of(registry: Registry, module: str) -> str | None:
    """Return the import path of the app of a registry, or `None` where an executor could not import it."""
    if module == "__main__":  # a script or a notebook: importing it would run it again
        return None
    apps = {name: value for name, value in vars(sys.modules[module]).items() if isinstance(value, Holdfast)}
    names = [name for name, app in apps.items() if app.registry is registry]
    return f"{module}:{names[0]}" if names else None
