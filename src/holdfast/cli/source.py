"""Which store a command talks to: that of an app, or the one that a URL names."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from ..app import Holdfast
from ..errors import ConfigError
from ..find import load_app
from ..store import shown

T = TypeVar("T")
Function = Callable[..., Any]


@dataclass(frozen=True)
class Source:
    """What the options say. An option beats the environment, and HOLDFAST_APP beats HOLDFAST_URL."""

    target: str | None = None
    url: str | None = None

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
        if not app.store.shared:
            raise ConfigError(
                f"{shown(app.store.url)} is one process's own memory, and this is another process: "
                "use a store that both reach, such as sqlite:///jobs.db"
            )
        return app

    @property
    def given(self) -> bool:
        """True when some store is named."""
        return any(self._chosen())

    def run(self, work: Callable[[Holdfast], Awaitable[T]], *, create: bool = False) -> T:
        """Return what the work returns, done with the app open; without `create`, its store must be there already."""
        app = self.app()

        async def opened() -> T:
            if not create:
                await must_exist(app)
            async with app:
                return await work(app)

        return asyncio.run(opened())

    def _chosen(self) -> tuple[str | None, str | None]:
        if self.target and self.url:
            raise ConfigError("--app and --url exclude each other: give one")
        if self.target or self.url:
            return self.target, self.url
        target = os.environ.get("HOLDFAST_APP") or None
        return target, None if target else os.environ.get("HOLDFAST_URL") or None


async def must_exist(app: Holdfast) -> None:
    """Raise when there is no store: opening would make one where somebody only looks, and perhaps mistyped it."""
    if place := await app.store.absent():
        raise ConfigError(
            f"there is no store at {place}: check the URL and the working directory (holdfast worker, enqueue, "
            "schedules add and migrate make a new one)"
        )


def source_options(command: Function) -> Function:
    """The command takes --app and --url, and is called with a `source`."""

    @click.option("--app", "target", metavar="MODULE:APP", help="The app, by import path. [env: HOLDFAST_APP]")
    @click.option("--url", metavar="URL", help="The store, without an app. [env: HOLDFAST_URL]")
    @functools.wraps(command)
    def with_source(*args: Any, target: str | None, url: str | None, **options: Any) -> Any:
        return command(*args, source=Source(target, url), **options)

    return with_source


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
