"""Where a lake is, and `holdfast lake vacuum`, which compacts it: neither Spark nor the store is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...errors import ConfigError
from ..command import json_option
from ..output import json_out, table
from ..parse import as_seconds

F = TypeVar("F", bound=Callable[..., Any])  # a command, with whatever options it has

if TYPE_CHECKING:
    from ...spark.lake import LakeLocation

FOLDER = "holdfast-lake"


def path_option(command: F) -> F:
    """Add the options that say where the lake is, and give the command a `LakeLocation` as `path`."""

    @wraps(command)
    def located(*args: object, path: str, storage_option: tuple[str, ...], **options: object) -> object:
        from ...spark.lake import LakeLocation

        return command(*args, path=LakeLocation.of(path, _storage_options(storage_option)), **options)

    where = click.option(
        "--path", envvar="HOLDFAST_LAKE", default=FOLDER, show_default=True,
        help="The lake's folder, or a URL of object storage such as s3://bucket/lake. [env: HOLDFAST_LAKE]",
    )  # fmt: skip
    how = click.option(
        "--storage-option", multiple=True, metavar="NAME=VALUE",
        help="An option of the object storage, as delta-rs has them; most are found in the environment.",
    )  # fmt: skip
    return where(how(located))  # type: ignore[return-value]


def _storage_options(words: Sequence[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    for word, (name, equals, _) in zip(words, pairs, strict=True):
        if not equals or not name:
            raise ConfigError(f"--storage-option {word!r}: give NAME=VALUE, as in AWS_REGION=eu-central-1")
    return {name: value for name, _, value in pairs}


@click.command()
@path_option
@click.option(
    "--older-than", callback=as_seconds, default="7d", show_default=True, metavar="S",
    help="Remove files that were replaced so long ago.",
)  # fmt: skip
@json_option
def vacuum(path: LakeLocation, older_than: float, as_json: bool) -> None:
    """Make few large files of many small ones, and remove files that are no longer needed.

    Past days are compacted; no row changes. The removed files are needed only to read an older version of a
    table. What a killed run left behind is removed too, once it is a day old.

    \b
    Examples:
      holdfast lake vacuum --path /srv/lake
      holdfast lake vacuum --older-than 1d
    """
    from ...spark.lake.vacuum import vacuum as tidy

    done = tidy(path, timedelta(seconds=older_than))
    if as_json:
        json_out({"tables": [vars(each) for each in done]})
        return
    rows = [(each.table, each.files_before, each.files_after, each.removed) for each in done]
    table(("table", ">files before", ">after", ">removed from disk"), rows)
