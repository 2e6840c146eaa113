"""The place of a lake or of one of its tables: a folder, or a URL of object storage with its options."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from ....errors import ConfigError

SCHEMES = ("s3", "s3a", "abfss", "abfs", "az", "adl", "gs", "hdfs", "viewfs")
"""The object storages that delta-rs knows."""
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+")
_REFUSED = re.compile(r"[\[\]^|\\\x00-\x1f]")
"""Characters in a folder's path at which delta-rs panics."""


@dataclass(frozen=True)
class LakeLocation:
    """A folder of this machine (or one that all machines share), or a URL of object storage."""

    uri: str
    options: dict[str, str] = field(default_factory=dict, repr=False)
    """The storage options of delta-rs; secrets may be among them."""

    @classmethod
    def of(cls, path: str | Path | LakeLocation, options: Mapping[str, str] | None = None) -> LakeLocation:
        """Return the location that a path or URL names; raise when a lake cannot be there."""
        if isinstance(path, LakeLocation):
            return path
        text = str(path)
        if match := _URL.match(text):
            return _of_url(text, match[1].lower(), dict(options or {}), is_path=isinstance(path, Path))
        folder = Path(text).absolute()
        if refused := _REFUSED.search(str(folder)):
            raise ConfigError(f"the lake {text!r}: Delta tables cannot lie below a name with {refused[0]!r} in it")
        return cls(str(folder), dict(options or {}))

    def __str__(self) -> str:
        return self.uri

    def __truediv__(self, name: str) -> LakeLocation:
        return LakeLocation(f"{self.uri}/{name}", self.options)

    @property
    def is_local(self) -> bool:
        """Whether it is a folder, which Spark reads by itself."""
        return not _URL.match(self.uri)

    @property
    def path(self) -> Path | str:
        """The folder as a path, or the URL."""
        return Path(self.uri) if self.is_local else self.uri

    def put(self, name: str, data: bytes) -> None:
        """Write a file at once."""
        if self.is_local:
            path = Path(self.uri, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            return
        out = self._handler.open_output_stream(name)  # pyarrow would close it twice, at which delta-rs panics
        out.write(data)
        out.close()

    def open(self, name: str) -> Any:
        """Return a file for reading at any place of it."""
        return self._files.open_input_file(name)

    def names(self) -> list[str]:
        """Return what lies here, by name; nothing when the place does not exist."""
        found = self._files.get_file_info(fs.FileSelector("", recursive=False, allow_not_found=True))
        return [info.base_name for info in found]

    def remove(self, names: Iterable[str]) -> None:
        """Delete files that no table knows, as far as they are there."""
        for name in names:
            if self.is_local:
                Path(self.uri, name).unlink(missing_ok=True)
                continue
            try:
                self._files.delete_file(name)
            except OSError:
                pass  # a vacuum will find it

    def remove_folder(self, name: str) -> None:
        """Delete a folder of this machine."""
        shutil.rmtree(Path(self.uri, name), ignore_errors=True)

    @cached_property
    def _storage(self) -> DeltaStorageHandler:
        return DeltaStorageHandler(self.uri, dict(self.options))

    @property
    def _handler(self) -> Any:
        return self._storage._handler

    @cached_property
    def _files(self) -> Any:
        if self.is_local:
            return fs.SubTreeFileSystem(self.uri, fs.LocalFileSystem())
        return fs.PyFileSystem(self._storage)

    def __reduce__(self) -> tuple[Any, ...]:
        return LakeLocation, (self.uri, self.options)  # without what was opened


def _of_url(text: str, scheme: str, options: dict[str, str], *, is_path: bool) -> LakeLocation:
    if scheme == "file":
        return LakeLocation.of(unquote(urlsplit(text).path), options)
    if scheme not in SCHEMES:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise ConfigError(f"the lake {text!r}: give a folder, or object storage by one of {known}")
    if is_path or not text[len(scheme) :].startswith("://"):
        raise ConfigError(f"the lake {text!r}: give a URL as text, with two slashes; a Path loses one of them")
    if not urlsplit(text).netloc:
        raise ConfigError(f"the lake {text!r}: name the bucket or host, as in {scheme}://bucket/lake")
    return LakeLocation(text.rstrip("/"), options)
