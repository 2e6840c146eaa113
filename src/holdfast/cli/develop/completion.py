"""`holdfast completion`: completion of commands, options and names in the shell."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from ...errors import ConfigError
from ..command import CommandGroup
from ..output import say

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_HOLDFAST_COMPLETE"
_ZSH = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n"
shell_argument = click.argument("shell", required=False, type=click.Choice(SHELLS), metavar="[bash|zsh|fish]")


@click.group(cls=CommandGroup)
def completion() -> None:
    """Complete commands, options, tasks and queues with Tab.

    \b
    Examples:
      holdfast completion install
      holdfast completion show zsh > ~/.zfunc/_holdfast
    """


@completion.command()
@shell_argument
def install(shell: str | None) -> None:
    """Install it for a shell, by default the one in SHELL. A second time changes nothing.

    \b
    Example:
      holdfast completion install zsh
    """
    chosen = shell or _own_shell()
    script, start = _places(chosen)
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(script_of(chosen))
    changed = f", and {start} sources it" if start is not None and _source(start, script) else ""
    say(f"wrote {script}{changed}; open a new {chosen} to have it")


@completion.command()
@shell_argument
def show(shell: str | None) -> None:
    """Print the script, by default for the shell in SHELL.

    \b
    Example:
      holdfast completion show bash
    """
    click.echo(script_of(shell or _own_shell()), nl=False)


def script_of(shell: str) -> str:
    """Return the script that a shell sources."""
    kind = get_completion_class(shell)
    assert kind is not None
    text = kind(click.get_current_context().find_root().command, {}, "holdfast", VARIABLE).source_template
    named = {"complete_func": "_holdfast_completion", "complete_var": VARIABLE, "prog_name": "holdfast"}
    return (_ZSH if shell == "zsh" else "") + text % named


def _own_shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise ConfigError(f"SHELL={name!r}: say for which shell, one of {', '.join(SHELLS)}")
    return name


def _places(shell: str) -> tuple[Path, Path | None]:
    """Return where the script goes, and the file that has to source it, if the shell does not find it by itself."""
    home = Path.home()
    if shell == "fish":
        config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        return config / "fish" / "completions" / "holdfast.fish", None
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    return data / "holdfast" / f"completion.{shell}", home / f".{shell}rc"


def _source(start: Path, script: Path) -> bool:
    """Have the shell source the script when it starts; return whether that was new."""
    line = f"source '{script}'"
    text = start.read_text() if start.exists() else ""
    if line in text.splitlines():
        return False
    with start.open("a") as file:
        file.write(("\n" if text and not text.endswith("\n") else "") + line + "\n")
    return True
