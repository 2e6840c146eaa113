"""The command does not start where the other package named `holdfast` is in the way, and says what to do."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast_queue
from holdfast import __version__
from holdfast.distribution import DISTRIBUTION

REMEDY = "pip uninstall holdfast, and then pip install --force-reinstall --no-deps holdfast-queue"
RECORD = "holdfast/__init__.py,sha256=47DEQpj8HBSa,0\nholdfast/status.py,sha256=47DEQpj8HBSa,0\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of installed packages, with ours in it."""
    site = tmp_path / "site"
    (site / "holdfast").mkdir(parents=True)
    shutil.copy(holdfast_queue.__file__, site)
    (site / "holdfast" / "__init__.py").write_text("")
    (site / "holdfast" / "__main__.py").write_text("def main(): print('started')")
    return site


def start(*path: Path) -> subprocess.CompletedProcess[str]:
    """Run the console entry point with nothing but `path` and the standard library."""
    code = f"import sys; sys.path[:0] = {[str(each) for each in path]}; import holdfast_queue; holdfast_queue.main()"
    return subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60)


def install_other(site: Path, record: str = RECORD) -> None:
    (site / "holdfast-0.5.1.dist-info").mkdir()
    (site / "holdfast-0.5.1.dist-info" / "RECORD").write_text(record)


def test_our_package_alone_starts(site: Path) -> None:
    assert start(site).stdout == "started\n"


def test_the_other_package_over_ours_is_refused(site: Path) -> None:
    install_other(site)
    (site / "holdfast" / "__init__.py").write_text("raise SystemExit('the code of other people has run')")
    done = start(site)
    said = f"holdfast 0.5.1 has the same files as {DISTRIBUTION}, and is a project of other people: {REMEDY}"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"holdfast: {said}\n")


def test_another_package_of_that_name_without_our_files_is_not_refused(site: Path) -> None:
    install_other(site, "_editable_impl_holdfast.pth,,\n")  # a clone from before the name was changed
    (site / "holdfast-1.0.dist-info").mkdir()  # without a record, as some systems install
    assert start(site).stdout == "started\n"


@pytest.mark.parametrize("file", ["holdfast.py", "holdfast/__init__.py"])
def test_a_package_that_shadows_ours_is_refused(file: str, site: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / file
    other.parent.mkdir(parents=True)
    other.write_text("raise SystemExit('the code of other people has run')")
    done = start(tmp_path / "other", site)
    said = f"`import holdfast` finds {other}, which is not a file of {DISTRIBUTION}: remove it ({REMEDY})"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"holdfast: {said}\n")


def test_files_that_went_with_the_other_package_are_missed(site: Path) -> None:
    (site / "holdfast" / "__init__.py").unlink()
    done = start(site)
    said = f"files of {DISTRIBUTION} are missing in {site}: {REMEDY}"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"holdfast: {said}\n")


def test_a_link_to_the_folder_of_our_package_is_ours(site: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(site)
    assert start(tmp_path / "link", site).stdout == "started\n"


def test_python_m_looks_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "holdfast", "--version"], capture_output=True, text=True
    )
    assert (done.stdout, "holdfast_queue" in done.stderr) == (f"holdfast {__version__}\n", True)


def test_a_command_collects_garbage_but_not_among_its_modules(tmp_path: Path) -> None:
    probe = "import gc\nfrom holdfast import Holdfast\nprint(gc.isenabled(), gc.get_freeze_count() > 10_000)\n"
    (tmp_path / "probe.py").write_text(probe + "app = Holdfast('sqlite:///jobs.db')\n")
    command = [sys.executable, "-m", "holdfast", "settings", "probe:app"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("True True\n"), done.stdout
