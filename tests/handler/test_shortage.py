"""What a machine lacks is told apart from what a module or a handler does wrong, however it is wrapped."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import psycopg
import pytest

from holdfast import ConfigError
from holdfast.executor.call import found
from holdfast.executor.process.frames import HandlerPath
from holdfast.executor.shortage import is_shortage


@pytest.mark.parametrize(
    ("line", "want"),
    [
        (f"raise OSError({errno.EMFILE}, 'Too many open files')", True),
        ("raise MemoryError", True),
        ('raise RuntimeError("can\'t start new thread")', True),
        (f"raise ImportError('libz.so.1: cannot open shared object file: {os.strerror(errno.EMFILE)}')", True),
        (f"raise ImportError('_json.so: failed to map segment: {os.strerror(errno.ENOMEM)}')", True),
        ("try: raise MemoryError\nexcept MemoryError: raise AttributeError('what a module made of it')", True),
        ("raise ValueError('a mistake of the module')", False),
        ("import a_module_that_is_not_there", False),
    ],
)
def test_a_module_that_the_machine_could_not_import_is_no_mistake_of_its_own(
    line: str, want: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wanting_module.py").write_text(line)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError) as raised:
        found(HandlerPath("wanting_module:handler"))
    assert is_shortage(raised.value) is want


def test_a_url_that_libpq_had_no_memory_to_read_is_no_mistake_of_whoever_wrote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise psycopg.ProgrammingError("out of memory\n")

    monkeypatch.setattr(psycopg.conninfo, "conninfo_to_dict", refuse)
    (tmp_path / "app_without_memory.py").write_text(
        "import holdfast\n\nholdfast.Holdfast('postgresql://localhost/shop')"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError) as raised:
        found(HandlerPath("app_without_memory:handler"))
    assert is_shortage(raised.value)
