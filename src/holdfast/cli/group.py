"""Commands as we make them: `--debug` everywhere, a near guess for a wrong name, a default in a group."""

from __future__ import annotations

import difflib
from typing import Any

import click

from ..errors import HoldfastError

HELP = {"help_option_names": ["-h", "--help"]}


class NotDone(HoldfastError):
    """What was asked for in good order could not be done."""


class Command(click.Command):
    """A command with `--debug`, and `-h` as well as `--help`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("context_settings", HELP)
        super().__init__(*args, **options)
        self.params.append(
            click.Option(["--debug"], is_flag=True, expose_value=False, help="Show a traceback when it fails.")
        )


class Group(click.Group):
    """A group that guesses what a wrong name meant; with `default`, that command runs when none is named."""

    command_class = Command

    def __init__(self, *args: Any, default: str | None = None, **options: Any) -> None:
        options.setdefault("context_settings", HELP)
        super().__init__(*args, **options)
        self.default = default
        if default is None:
            self.params.append(
                click.Option(["--debug"], is_flag=True, expose_value=False, help="Show a traceback when it fails.")
            )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`holdfast jobs --state failed` is `holdfast jobs list --state failed`."""
        if self.default and (not args or (args[0].startswith("-") and args[0] not in ("-h", "--help"))):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the words name, or say which one was probably meant."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            known = self.list_commands(ctx)
            near = difflib.get_close_matches(name, known, 1, 0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise click.UsageError(f"there is no command {name!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)


def one_line(text: str) -> str:
    """Return a message on one line."""
    return " ".join(text.split())
