"""Flask: handlers with the application's context, and the commands as `flask holdfast`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from ..app.app import Holdfast
from ..distribution import pip_install
from ..errors import ConfigError, MissingExtra
from ..executor.shortage import CannotStart
from ..handler.job import Job
from ..handler.middleware import Next

try:
    from flask import Flask, current_app
    from werkzeug.local import LocalProxy
except ImportError as error:
    raise MissingExtra(f"holdfast.contrib.flask needs flask, which is missing: {pip_install('flask')}") from error

__all__ = ["HoldfastFlask", "current_holdfast"]
NAME = "holdfast"


class HoldfastFlask:
    """The extension: `HoldfastFlask(jobs, flask)`, or `init_app(flask)` in an application factory.

    Handlers run in the application's context, so that `current_app` and what hangs on it can be used. Those in
    processes and sandboxes do not: they make an application of their own.
    """

    def __init__(self, app: Holdfast, flask: Flask | None = None, *, path: str | None = None) -> None:
        """`path` is what `flask holdfast` takes for `--app`; by default the module and name under which the app is."""
        self.app = app
        self._path = path
        self._flask: Flask | None = None
        app.middleware(self._in_context)
        if flask is not None:
            self.init_app(flask)

    def init_app(self, flask: Flask) -> None:
        """Join the app to a Flask application; the last one that was joined is the handlers'."""
        if flask.extensions.get(NAME, self) is not self:
            raise ConfigError(f"the Flask application {flask.name!r} has a Holdfast app already: it takes one")
        if NAME not in flask.extensions:
            flask.extensions[NAME] = self
            flask.cli.add_command(_command(self))
        self._flask = flask

    @property
    def path(self) -> str:
        """The import path of the app, for the command line."""
        found = self._path or _path_of(self.app)
        if found is None:
            raise ConfigError(
                "no module has this Holdfast app under a name: say HoldfastFlask(jobs, path='shop.jobs:jobs')"
            )
        return found

    async def _in_context(self, job: Job, next: Next) -> Any:
        if self._flask is None:
            raise CannotStart(
                "this worker has no Flask application: name a module that makes one, say `flask = create_app()`, "
                "or start the worker with `flask holdfast worker`"
            )
        with self._flask.app_context():
            return await next()


def _joined() -> Holdfast:
    found = current_app.extensions.get(NAME)
    if not isinstance(found, HoldfastFlask):
        raise ConfigError(f"the Flask application {current_app.name!r} has no Holdfast app: HoldfastFlask(jobs, flask)")
    return found.app


current_holdfast: Holdfast = LocalProxy(_joined)  # type: ignore[assignment]
"""The app of the current Flask application."""


def _path_of(app: Holdfast) -> str | None:
    """Return a module and name under which the app is found; the module whose name is shortest made or shows it."""
    found = [
        f"{module}:{name}"
        for module, loaded in list(sys.modules.items())
        if module != "__main__"
        for name, value in list(getattr(loaded, "__dict__", {}).items())
        if value is app
    ]
    return min(found, key=lambda path: (len(path), path), default=None)


def _command(extension: HoldfastFlask) -> click.Command:
    """Return `flask holdfast ...`: every command of `holdfast`, with this app unless another is named."""

    @click.command(
        NAME,
        context_settings={"ignore_unknown_options": True, "help_option_names": []},
        short_help="Run jobs, and look at them: the commands of holdfast.",
    )
    @click.argument("words", nargs=-1, type=click.UNPROCESSED)
    def run(words: tuple[str, ...]) -> None:
        from ..cli.root import cli

        with _default_app(extension):
            cli.main(list(words), prog_name="flask holdfast")

    return run


@contextmanager
def _default_app(extension: HoldfastFlask) -> Iterator[None]:
    """Let commands find this app where neither the environment nor they themselves name one."""
    if {"HOLDFAST_APP", "HOLDFAST_URL"} & set(os.environ):
        yield
        return
    os.environ["HOLDFAST_APP"] = extension.path
    try:
        yield
    finally:
        del os.environ["HOLDFAST_APP"]
