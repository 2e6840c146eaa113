"""What every command has: `--debug`, near guesses for a wrong name, and the store it talks to (`--app`, `--url`)."""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
import functools
import getpass
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import click

from ..app.app import Holdfast
from ..app.loader import load_app
from ..core.action import acting_as, check_actor
from ..core.bound import MOST_NAME_BYTES
from ..errors import ConfigError, HoldfastError
from ..store import shown

OptionValue: TypeAlias = Any
"""The value of an option, of the type that its declaration says."""
GivenOptions = dict[str, OptionValue]
"""The options of a command, as click passes them."""
HELP = {"help_option_names": ["-h", "--help"]}


class NotDone(HoldfastError):
    """A correct request that could not be done."""


class Halfway(HoldfastError):
    """A command was interrupted between two of its steps. It says what it did, and how to go on."""


class Command(click.Command):
    """A command with `--debug`, and `-h` as well as `--help`."""

    def __init__(self, *args: OptionValue, **options: OptionValue) -> None:
        options.setdefault("context_settings", HELP)
        super().__init__(*args, **options)
        self.params.append(
            click.Option(["--debug"], is_flag=True, expose_value=False, help="Show a traceback when it fails.")
        )


class CommandGroup(click.Group):
    """A group that guesses what a wrong name meant; with `default`, that command runs when none is named."""

    command_class = Command

    def __init__(self, *args: OptionValue, default: str | None = None, **options: OptionValue) -> None:
        options.setdefault("context_settings", HELP)
        super().__init__(*args, **options)
        self.default = default
        if default is None:
            self.params.append(
                click.Option(["--debug"], is_flag=True, expose_value=False, help="Show a traceback when it fails.")
            )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the default command first where none is named: `jobs --state failed` is `jobs list --state failed`."""
        if self.default and (not args or (args[0].startswith("-") and args[0] not in ("-h", "--help"))):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the words name; raise with the most similar name when there is none."""
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


T = TypeVar("T")
Function = Callable[..., Any]


@dataclass(frozen=True)
class Source:
    """The app or URL of a command. An option beats the environment, and HOLDFAST_APP beats HOLDFAST_URL."""

    target: str | None = None
    url: str | None = None
    actor: str | None = None
    """Who acts, as events have it; by default `cli:` and the name of the user."""

    @property
    def who(self) -> str:
        """Who acts: as was said, or `cli:` and the name of the user."""
        return self.actor or user_name()

    def app(self) -> Holdfast:
        """Return the app, or a bare one on the URL."""
        target, url = self._chosen()
        if target is not None:
            app = load_app(target)
        elif url is not None:
            app = Holdfast(url)
        else:
            raise ConfigError(
                "which store? Give --app module:app or --url sqlite:///jobs.db, or set HOLDFAST_APP or HOLDFAST_URL"
            )
        if not app.store.shared and not getattr(app.store, "lent", False):
            raise ConfigError(
                f"{shown(app.store.url)} is one process's own memory, and this is another process: "
                "use a store that both reach, such as sqlite:///jobs.db"
            )
        return app

    @property
    def given(self) -> bool:
        """Whether a store is named."""
        return any(self._chosen())

    @property
    def worker_command(self) -> str:
        """How to start a worker of this app, by the name of the command that runs: `manage.py holdfast worker`."""
        target, _ = self._chosen()
        name = click.get_current_context().find_root().info_name or "holdfast"
        known = "" if target and not self.target else f" {self.target or 'module:app'}"
        return f"{name} worker{known}"

    def run(self, work: Callable[[Holdfast], Awaitable[T]], *, create: bool = False) -> T:
        """Open the app, await the work and return its result; without `create`, the store must exist already."""
        app = self.app()

        async def opened() -> T:
            if not create:
                await must_exist(app)
            async with app:
                return await work(app)

        with acting_as(self.who):
            return asyncio.run(opened())

    def _chosen(self) -> tuple[str | None, str | None]:
        # It is a variable of a shell that is not set, and the environment may mean another store.
        if "" in (self.target, self.url):
            raise ConfigError(f"{'--url' if self.url == '' else '--app'} is empty: name a store, or leave it out")
        if self.target and self.url:
            raise ConfigError("--app and --url exclude each other: give one")
        if self.target or self.url:
            return self.target, self.url
        target = os.environ.get("HOLDFAST_APP") or None
        return target, None if target else os.environ.get("HOLDFAST_URL") or None


async def must_exist(app: Holdfast) -> None:
    """Raise when there is no store: opening would make one, perhaps under a mistyped name."""
    if place := await app.store.absent():
        here = "" if "://" in place or os.path.isabs(place) else f", {os.getcwd()}"
        raise ConfigError(
            f"there is no store at {place}: check the URL and the working directory{here} (holdfast worker, enqueue, "
            "schedules add and migrate make a new one)"
        )


def user_name() -> str:
    """Return who acts where nobody says so: `cli:ann`."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # an id without a name, as in containers
        name = str(os.getuid())
    return f"cli:{name}"[:MOST_NAME_BYTES]


def source_options(command: Function) -> Function:
    """Give a command the options --app and --url, and call it with a `source`."""

    @click.option("--app", "target", metavar="MODULE:APP", help="The app, by import path. [env: HOLDFAST_APP]")
    @click.option("--url", metavar="URL", help="The store, without an app. [env: HOLDFAST_URL]")
    @functools.wraps(command)
    def with_source(*args: OptionValue, target: str | None, url: str | None, **options: OptionValue) -> object:
        return command(*args, source=Source(target, url), **options)

    return with_source


def acting_options(command: Function) -> Function:
    """Give a command that changes something the options --app, --url and --as, and call it with a `source`."""

    @source_options
    @click.option("--as", "actor", metavar="NAME", help="Who does it, for the event log. [default: cli:USER]")
    @functools.wraps(command)
    def with_actor(*args: OptionValue, source: Source, actor: str | None, **options: OptionValue) -> object:
        if actor is not None:
            check_actor(actor)
        return command(*args, source=dataclasses.replace(source, actor=actor), **options)

    return with_actor


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
