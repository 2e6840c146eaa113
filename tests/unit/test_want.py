"""What a machine lacks is told apart from what a module or a handler does wrong, however it is wrapped."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from holdfast import ConfigError
from holdfast.executor.call import found
from holdfast.executor.process.wire import Handler
from holdfast.executor.trouble import is_want


@pytest.mark.parametrize(
    ("line", "want"),
    [
        (f"raise OSError({errno.EMFILE}, 'Too many open files')", True),
        ("raise MemoryError", True),
        ('raise RuntimeError("can\'t start new thread")', True),
        (f"raise ImportError('libz.so.1: cannot open shared object file: {os.strerror(errno.EMFILE)}')", True),
        (f"raise ImportError('_json.so: failed to map segment: {os.strerror(errno.ENOMEM)}')", True),
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
        found(Handler("wanting_module:handler"))
    assert is_want(raised.value) is want
