"""Every block of Python in the docs runs: programs by themselves, pieces in a program around them."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from blocks import AROUND, ROOT, Block, around, blocks, files, filled, numbers, pieces
from lean_spark import lean_environment
from peers import PEERS

BLOCKS = blocks("python")
PROGRAMS = [block for block in BLOCKS if block.complete and not (block.theirs or block.not_run)]
PIECES = pieces()
FILES = files()


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.where)
def test_every_block_of_python_compiles(block: Block) -> None:
    compile(block.code, block.where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_every_piece_has_its_place_in_a_program() -> None:
    places = {page: numbers(around(page).read_text()) if around(page).exists() else [] for page in PIECES}
    wrong = {str(page): (found, len(PIECES[page])) for page, found in places.items() if sorted(found) != _all(page)}
    assert wrong == {}, "write tests/docs/around/…, or say above the block why it is not run: <!-- not run: … -->"
    assert {path.name for path in AROUND.glob("*.py")} == {around(page).name for page in PIECES}


def _all(page: Path) -> list[int]:
    return list(range(1, len(PIECES[page]) + 1))


def test_the_other_side_of_a_guide_can_be_run_and_has_ours_beside_it() -> None:
    theirs = {block.theirs: block.page for language in ("python", "js") for block in blocks(language) if block.theirs}
    assert theirs.keys() == PEERS.keys()
    assert set(theirs.values()) <= {block.page for block in PROGRAMS}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("page", PIECES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_pieces_of_a_page_run(page: Path, tmp_path: Path) -> None:
    program = filled(around(page).read_text(), PIECES[page])
    (tmp_path / "program.py").write_text(program)
    run("program", str(page), tmp_path, patience=180 if "spark" in program else 60)


@pytest.mark.parametrize("page", FILES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_files_of_a_page_pass_their_tests(page: Path, tmp_path: Path) -> None:
    for block in FILES[page]:
        (tmp_path / block.file).write_text(block.code)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "-W", "error", "."]
    done = subprocess.run([*command, "--rootdir", "."], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(240)
@pytest.mark.parametrize("block", PROGRAMS, ids=lambda block: block.where)
def test_every_program_runs(block: Block, tmp_path: Path) -> None:
    (tmp_path / f"{block.name}.py").write_text(block.code)
    patience = 180 if "holdfast.spark" in block.code else 30
    if ".worker(" in block.code or "WorkerProcesses(" in block.code:
        run(block.name, block.where, tmp_path, patience)
        return
    command = [sys.executable, "-m", "holdfast", "worker", f"{block.name}:app", "--log-level", "error"]
    worker = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        run(block.name, block.where, tmp_path, patience)
    finally:
        worker.terminate()
        worker.wait(30)


def run(name: str, where: str, folder: Path, patience: int) -> None:
    """Run a program of the docs; it ends well, and raises nothing that it does not handle."""
    done = subprocess.run(
        [sys.executable, "-W", "error", f"{name}.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
        env=lean_environment(ROOT / "tests"),
    )
    assert done.returncode == 0, f"{where}\n{done.stdout}{done.stderr}"
    own = [line for line in done.stderr.splitlines() if line.startswith("Traceback")]  # those of jobs are indented
    assert not own, f"{where}\n{done.stderr}"
