"""python -m benchmarks.lake_scale: lakes of a million to a billion events, and what an increment costs each of them."""

from __future__ import annotations

import itertools
import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import click
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from holdfast.spark import session
from holdfast.spark.lake.opening import open_tables

from .copies import add_copies
from .log import grow
from .meters import Figures, Meters
from .world import World

FLAT = 1.3
"""The most that an increment may cost on the longest history, times what it costs on the shortest."""
_master = click.option("--master", default="local[2]", show_default=True, help="Spark's master.")
_memory = click.option("--memory", default="3g", show_default=True, help="The memory of the driver's JVM.")
_days = click.option("--days", type=click.IntRange(8), default=400, show_default=True, help="The longest history.")
_rate = click.option(
    "--shelves", type=click.IntRange(1), default=5, show_default=True, help="Times 16,384 jobs a day (51,000 events)."
)
_seed = click.option("--seed", type=int, default=1, show_default=True)
_path = click.option("--path", type=click.Path(path_type=Path), required=True, help="The folder of the lakes.")


@click.group()
def main() -> None:
    """Make lakes by simulation of the log, and measure them."""


@main.command()
@_path
@_days
@_rate
@_seed
@_master
@_memory
@click.option("--block", type=click.IntRange(1), default=4, show_default=True, help="Days that the lake's steps make.")
@click.option("--steps", type=click.IntRange(1), default=1, show_default=True, help="Batches of the block.")
@click.option("--lengths", default="1,10,100", show_default=True, help="Lakes, in blocks: the longest has all days.")
def make(
    path: Path, days: int, shelves: int, seed: int, master: str, memory: str, block: int, steps: int, lengths: str
) -> None:
    """Make a lake for each length, all with the same newest days.

    The newest block goes through the lake's own steps, and earlier ones are copies of it, moved back in time. With
    `--block` equal to `--days` and `--lengths 1` everything goes through the lake's own steps.
    """
    spark = _session(master, memory)
    world = World(seed=seed, shelves_per_day=shelves, first_day=days - block)
    counts = sorted({1, *map(int, lengths.split(","))})
    if counts[-1] * block > days:
        raise click.BadParameter(
            f"{counts[-1]} blocks of {block} days are more than {days} days", param_hint="--lengths"
        )
    first = _lake(path, block * counts[0])
    for _ in range(steps):
        made = grow(first, spark, world, round(block * world.events_per_day / steps))
        click.echo(f"{first.name}: {made:,} events by the lake's steps")
    for before, count in itertools.pairwise(counts):
        target = _lake(path, block * count)
        shutil.copytree(_lake(path, block * before), target)
        add_copies(spark, target, world, block, before, count - 1)
        click.echo(f"{target.name}: {count} blocks")
    (path / "world.json").write_text(json.dumps({"seed": seed, "shelves": shelves, "first_day": days - block}))
    spark.stop()


def _lake(path: Path, days: int) -> Path:
    return path / f"days-{days:04}"


@main.command()
@_path
@_master
@_memory
@click.option("--events", type=click.IntRange(1000), default=100_000, show_default=True, help="Of an increment.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--warm-up", type=click.IntRange(0), default=2, show_default=True, help="Rounds that do not count.")
@click.option("--json", "target", type=click.Path(path_type=Path), help="Write all figures to this file, too.")
@click.option("--check", is_flag=True, help="Exit with 1 when increments are not flat.")
def measure(
    path: Path, master: str, memory: str, events: int, rounds: int, warm_up: int, target: Path | None, check: bool
) -> None:
    """Add the same increments to every lake in turn, and show the medians. The lakes grow by them."""
    spark = _session(master, memory)
    lakes = sorted(path.glob("days-*"))
    found: dict[str, list[Figures]] = {lake.name: [] for lake in lakes}
    for number in range(warm_up + rounds):
        for lake in lakes if number % 2 else reversed(lakes):
            figures = increment(spark, lake, _world(path), events)
            click.echo(f"round {number}: {lake.name}: {json.dumps(figures)}", err=True)
            if number >= warm_up:
                found[lake.name].append(figures)
    spark.stop()
    medians = {
        name: {key: statistics.median(each[key] for each in rows) for key in rows[0]} for name, rows in found.items()
    }
    for lake in lakes:
        medians[lake.name] |= _apart("memory", path, lake.name, master, memory, events)
    if target is not None:
        target.write_text(json.dumps({"rounds": found, "medians": medians}, indent=2))
    ratio = _show(medians, events)
    sys.exit(1 if check and ratio > FLAT else 0)


def increment(spark: SparkSession, path: Path, world: World, events: int) -> Figures:
    """Return what it costs to open a lake and to add the next events to it."""
    with Meters(spark).running() as spent:
        grow(path, spark, world, events)
    files = {name: table.actions() for name, table in open_tables(path).items()}
    return {
        **spent.figures,
        "files": sum(map(len, files.values())),
        "events": sum(files["events"]["num_records"].to_pylist()),
        "log, MB": sum(file.stat().st_size for file in path.glob("*/_delta_log/*")) / 1e6,
    }


@main.command()
@_path
@_master
@_memory
@click.option("--lake", required=True, help="Its name.")
@click.option("--events", type=click.IntRange(1000), default=100_000, show_default=True)
def memory(path: Path, master: str, memory: str, lake: str, events: int) -> None:
    """Say what the driver of a process of its own holds when it adds one increment to a lake."""
    spark = _session(master, memory)
    figures = increment(spark, path / lake, _world(path), events)
    peak = {"driver's peak, MB": figures["driver's peak, MB"], **Meters(spark).jvm_figures()}
    click.echo(json.dumps(peak))
    spark.stop()


def _apart(verb: str, path: Path, lake: str, master: str, memory: str, events: int) -> Figures:
    words = [verb, "--path", str(path), "--lake", lake, "--master", master, "--memory", memory, "--events", str(events)]
    done = subprocess.run([sys.executable, "-m", __package__, *words], check=True, stdout=subprocess.PIPE, text=True)
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def _world(path: Path) -> World:
    kept = json.loads((path / "world.json").read_text())
    return World(seed=kept["seed"], shelves_per_day=kept["shelves"], first_day=kept["first_day"])


def _session(master: str, memory: str) -> SparkSession:
    return session(master, conf={"spark.driver.memory": memory})


def _show(medians: dict[str, Figures], events: int) -> float:
    """Show the medians; return the ratio of processor time, longest history to shortest."""
    table = Table(title=f"an increment of {events:,} events, medians")
    table.add_column("figure")
    for name in medians:
        table.add_column(name, justify="right")
    table.add_column("ratio", justify="right")
    first, last = next(iter(medians.values())), list(medians.values())[-1]
    for key in first:
        ratio = last[key] / first[key] if first[key] else float("nan")
        table.add_row(key, *(f"{each[key]:,.2f}" for each in medians.values()), f"{ratio:.2f}")
    processor = [sum(value for key, value in each.items() if "processor" in key) for each in (first, last)]
    console = Console()
    console.print(table)
    console.print(f"processor time: {processor[1] / processor[0]:.2f} times the shortest history's (at most {FLAT})")
    return processor[1] / processor[0]


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.lake_scale")
