"""Command lines, parsed as `holdfast` parses them."""

from __future__ import annotations

import click

from holdfast.cli.root import cli


def parse(words: list[str]) -> None:
    """Parse a command line as the command does, down to the last option; raise click's error for what is wrong."""
    command: click.Command = cli
    context = command.make_context("holdfast", list(words))
    while isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        if not rest:
            return
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command = found
        context = command.make_context(name, rest, parent=context)
