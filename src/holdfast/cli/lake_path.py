"""Where a lake is."""

from __future__ import annotations

from pathlib import Path

import click

FOLDER = "holdfast-lake"
path_option = click.option(
    "--path", type=click.Path(file_okay=False, path_type=Path), envvar="HOLDFAST_LAKE", default=FOLDER,
    show_default=True, help="The lake's folder. [env: HOLDFAST_LAKE]",
)  # fmt: skip
