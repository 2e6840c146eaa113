"""python -m benchmarks.lake_scale: lakes of a million to a billion events, and what an increment costs each of them."""

from __future__ import annotations

import itertools
import json
import shutil
import statistics
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
UNKNOWN = float("nan")
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
    """Make a lake for each length, all with the same newest days. The same command goes on where it was stopped.

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
    if not first.exists():
        begun = _begun(first)
        shutil.rmtree(begun, ignore_errors=True)
        for _ in range(steps):
            made = grow(begun, spark, world, round(block * world.events_per_day / steps))
            click.echo(f"{first.name}: {made:,} events by the lake's steps")
        begun.rename(first)
    (path / "world.json").write_text(json.dumps({"seed": seed, "shelves": shelves, "first_day": days - block}))
    for before, count in itertools.pairwise(counts):
        target = _lake(path, block * count)
        if not target.exists():
            begun = _copied(_lake(path, block * before), _begun(target))
            add_copies(spark, begun, world, block, before, count - 1)
            begun.rename(target)
        click.echo(f"{target.name}: {count} blocks")
    spark.stop()


def _begun(lake: Path) -> Path:
    """Return where a lake lies until it is whole."""
    return lake.with_name(f"begun-{lake.name}")


def _copied(source: Path, target: Path) -> Path:
    """Return a copy of a lake, the one that is there if it was begun before."""
    if not target.exists():
        whole = target.with_name(f"copy-of-{source.name}")
        shutil.rmtree(whole, ignore_errors=True)
        shutil.copytree(source, whole)
        whole.rename(target)
    return target


def _lake(path: Path, days: int) -> Path:
    return path / f"days-{days:04}"


@main.command()
@_path
@_master
@_memory
@click.option("--events", type=click.IntRange(1000), default=100_000, show_default=True, help="Of an increment.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--warm-up", type=click.IntRange(0), default=2, show_default=True, help="Rounds that do not count.")
def measure(path: Path, master: str, memory: str, events: int, rounds: int, warm_up: int) -> None:
    """Add the same increments to every lake in turn, and write down what they cost. The lakes grow by them.

    Figures are kept in `figures.jsonl` at once, so that this may be stopped and called again; `show` has the medians.
    """
    spark = _session(master, memory)
    lakes = sorted(path.glob("days-*"))
    for number in range(warm_up + rounds):
        for lake in lakes if number % 2 else reversed(lakes):
            figures = increment(spark, lake, _world(path), events)
            click.echo(f"round {number}: {lake.name}: {json.dumps(figures)}", err=True)
            if number >= warm_up:
                _keep(path, lake.name, events, figures)
    spark.stop()


def _keep(path: Path, lake: str, events: int, figures: Figures) -> None:
    with (path / "figures.jsonl").open("a") as file:
        file.write(json.dumps({"lake": lake, "increment": events, "figures": figures}) + "\n")


@main.command()
@_path
@click.option("--events", type=click.IntRange(1000), default=100_000, show_default=True, help="Of an increment.")
@click.option("--check", is_flag=True, help="Exit with 1 when increments are not flat.")
def show(path: Path, events: int, check: bool) -> None:
    """Show the medians of what was measured."""
    kept = [json.loads(line) for line in (path / "figures.jsonl").read_text().splitlines()]
    found: dict[str, dict[str, list[float]]] = {}
    for each in sorted((each for each in kept if each["increment"] == events), key=lambda each: str(each["lake"])):
        for key, value in each["figures"].items():
            found.setdefault(each["lake"], {}).setdefault(key, []).append(value)
    medians = {
        lake: {key: statistics.median(values) for key, values in figures.items()} for lake, figures in found.items()
    }
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
    """Write down what the driver, in a process of its own, holds when it adds one increment to a lake."""
    spark = _session(master, memory)
    figures = increment(spark, path / lake, _world(path), events)
    _keep(path, lake, events, {"alone: driver's peak, MB": figures["driver's peak, MB"], **Meters(spark).jvm_figures()})
    spark.stop()


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
        ratio = last.get(key, UNKNOWN) / first[key] if first[key] else UNKNOWN
        table.add_row(key, *(f"{each.get(key, UNKNOWN):,.2f}" for each in medians.values()), f"{ratio:.2f}")
    processor = [sum(value for key, value in each.items() if "processor" in key) for each in (first, last)]
    console = Console()
    console.print(table)
    console.print(f"processor time: {processor[1] / processor[0]:.2f} times the shortest history's (at most {FLAT})")
    return processor[1] / processor[0]


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.lake_scale")
