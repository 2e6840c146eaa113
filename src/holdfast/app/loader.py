"""An app by its import path: `shop:app`, `shop`, `shop.tasks:queue` or `examples/shop.py:app`."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from ..errors import ConfigError
from .app import Holdfast

DEFAULT_NAME = "app"


def load_app(target: str) -> Holdfast:
    """Return the app that the import path names."""
    place, name = _split(target)
    see_current_folder()
    module = _from_file(target, Path(place)) if _is_file(place) else _from_path(target, place)
    found: object = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, Holdfast):
        raise ConfigError(_not_an_app(target, module, name, found))
    return found


def see_current_folder() -> None:
    """Modules of the current folder can be imported, whatever started this process."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)


def place_of(target: str) -> Path | None:
    """Return the folder of an app that is named by its file; `None` for one that is named by its module."""
    place, _ = _split(target)
    return Path(place).resolve().parent if _is_file(place) else None


def _split(target: str) -> tuple[str, str]:
    place, colon, name = target.rpartition(":")
    if not colon or "/" in name or "\\" in name:
        place, name = target, DEFAULT_NAME
    if not place or not all(part.isidentifier() for part in name.split(".")):
        raise ConfigError(f"{target!r} names no app; write module:app or path/to/file.py:app")
    return place, name


def _is_file(place: str) -> bool:
    return place.endswith(".py") or "/" in place or "\\" in place


def _from_path(target: str, module: str) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise ConfigError(
                f"{target!r}: there is no module {error.name!r} here ({os.getcwd()}) or installed"
            ) from None
        raise ConfigError(f"{target!r} cannot be imported: {_where(error)}") from error
    except Exception as error:
        raise ConfigError(f"{target!r} cannot be imported: {_where(error)}") from error


def _from_file(target: str, path: Path) -> ModuleType:
    """Import a file by its place. Its folder can be imported from, as with `python path/to/file.py`."""
    path = path.resolve()
    if not path.is_file():
        raise ConfigError(f"{target!r}: there is no file {path}")
    name = path.stem
    known = sys.modules.get(name)
    if known is not None:
        if getattr(known, "__file__", None) == str(path):
            return known
        name = f"{name}_{abs(hash(str(path))):x}"
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    return _run(target, name, path)


def _run(target: str, name: str, path: Path) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{target!r}: {path} is not a Python file")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ConfigError(f"{target!r} cannot be imported: {_where(error)}") from error
    return module


def _where(error: BaseException) -> str:
    """Return the error and the line of somebody's code that raised it."""
    kind = "" if isinstance(error, ModuleNotFoundError) else f"{type(error).__name__}: "
    if isinstance(error, SyntaxError):  # which names its line
        return f"{kind}{error}"
    lines = [each for each in extract_tb(error.__traceback__) if not each.filename.startswith("<frozen")]
    return f"{kind}{error} ({lines[-1].filename}, line {lines[-1].lineno})"


def _not_an_app(target: str, module: ModuleType, name: str, found: object) -> str:
    apps = [each for each, value in vars(module).items() if isinstance(value, Holdfast)]
    known = f"it has {', '.join(apps)}" if apps else "it makes no Holdfast(...)"
    wrong = f"has no {name!r}" if found is None else f"has {name!r}, a {type(found).__name__} and no app"
    return f"{target!r}: the module {module.__name__} {wrong}; {known}"
