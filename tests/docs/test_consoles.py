"""Every command line of the docs is one that `holdfast` takes: names, options and values are checked."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path

import click
import pytest
from blocks import ROOT, blocks
from consoles import parse

from holdfast.cli.root import RootGroup, cli

SHELL = re.compile(r"[|&;]|\d?>")
"""Begins a word that is the shell's, and ends the command."""
MAKE = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def lines() -> list[tuple[str, str]]:
    """Return each line of a console that a reader would type, without its prompt, and where it is."""
    found = []
    for block in [block for shell in ("console", "sh", "bash") for block in blocks(shell)]:
        text = re.sub(r"\\\n\s*", "", block.code)
        for line in text.splitlines():
            typed = line.removeprefix("$ ") if line.startswith("$ ") else "" if block.language == "console" else line
            if typed.strip():
                found.append((block.where, typed.strip()))
    return found


LINES = lines()
OURS = [(where, line) for where, line in LINES if re.match(r"(\w+=\S+ )*(opentelemetry-instrument )?holdfast\b", line)]


def words_of(line: str) -> list[str]:
    """Return the words after `holdfast`, without what belongs to the shell."""
    words = shlex.split(line.partition("holdfast")[2], comments=True)
    return list(itertools.takewhile(lambda word: not SHELL.match(word), words))


def test_the_docs_have_command_lines() -> None:
    assert isinstance(cli, RootGroup)
    assert len(OURS) > 50


@pytest.mark.parametrize(("where", "line"), OURS, ids=lambda value: value[:60])
def test_a_command_line_of_the_docs_is_right(where: str, line: str) -> None:
    try:
        parse(words_of(line))
    except click.exceptions.Exit:
        return  # --help, --version
    except click.ClickException as error:
        pytest.fail(f"{where}: {line}: {error.format_message()}")


def test_a_wrong_command_line_is_found() -> None:
    for wrong in ("worker shop:app --slotz 3", "jobs list --limit many", "wrok shop:app"):
        with pytest.raises(click.ClickException):
            parse(wrong.split())


def test_every_make_target_of_the_docs_is_there() -> None:
    targets = {(where, found[1]) for where, line in LINES if (found := re.match(r"make ([a-z]+)", line))}
    assert [(where, target) for where, target in targets if target not in MAKE] == []


def test_the_prompt_marks_what_is_typed() -> None:
    bare = [block.where for block in blocks("console") if not re.search(r"^\$ ", block.code, re.MULTILINE)]
    assert bare == []


def test_files_that_the_docs_name_as_commands_are_there() -> None:
    named = {
        (where, path)
        for where, line in LINES
        for path in re.findall(r"(?<=python )((?:docs|tests|examples)/\S+)", line)
    }
    assert [(where, path) for where, path in named if not (Path(ROOT) / path).exists()] == []
