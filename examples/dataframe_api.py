"""A DataFrame through a rate-limited API, killed half-way and resumed: `python examples/dataframe_api.py`.

Spark selects the rows, the queue makes the calls, and Spark gets the results back. In a notebook, each cell (`# %%`) is
one of its own; the app is in a module (this file), so that workers can import it. `--rows 2000` is over sooner.
"""

import argparse
import asyncio
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from holdfast import Holdfast, Permanent, Rate, Retry

# %% The app: an API that takes so many calls a second, and no more.

app = Holdfast("sqlite:///dataframe_api.db")
app.queue("api", rate=Rate(5000))


@dataclass
class Place:
    city: str
    lat: float
    lon: float


@app.task(queue="api", retry=Retry(failures=3, initial=0.1))
async def geocode(number: int, street: str) -> Place:
    """A fake of an API that somebody else runs."""
    await asyncio.sleep(0.001)
    if number % 1000 == 13:
        raise Permanent(f"no such street: {street}")
    return Place(city=f"city {number % 50}", lat=number % 90, lon=number % 180)


# %% The map. The same name again goes on where it was, whoever was killed meanwhile.


def geocoded(rows: int):
    """Return the addresses with their places."""
    import holdfast.spark

    spark = holdfast.spark.session()
    addresses = spark.range(rows).selectExpr("id AS number", "concat(id, ' Main Street') AS street")
    return holdfast.spark.map(addresses, geocode, name="addresses")


# %% A worker, and a driver that is killed when half of the rows are done.


def start(*words: str, **streams: int) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, *words], **streams)


async def done() -> int:
    """Return how many calls have been made."""
    info = await app.queue("api").info()
    return info.counts["completed"] + info.counts["failed"] if info else 0


def kill_half_way(rows: int) -> None:
    driver = start(__file__, "--rows", str(rows), "--map-only", stderr=subprocess.DEVNULL)  # a killed JVM complains
    while app.sync(done()) < rows / 2 and driver.poll() is None:
        time.sleep(0.05)
    driver.kill()
    driver.wait()
    print(f"killed the driver: half of {rows} rows are done, and the queue goes on")


# %% The story.


def main(rows: int, rate: float) -> None:
    app.sync(app.queue("api").set(rate=Rate(rate)))
    target = f"{Path(__file__).resolve()}:app"
    worker = start("-m", "holdfast", "worker", target, "--slots", "50", "--log-level", "error")
    try:
        kill_half_way(rows)
        places = geocoded(rows)
        for row in places.groupBy("state").count().orderBy("state").collect():
            print(row["state"], row["count"])
        print(places.where("number = 7").select("street", "result.city", "result.lat").first().asDict())
        print(places.where("number = 13").select("error.message").first()["message"])
        print(places.agg({"attempts": "sum"}).first()[0], "calls for", rows, "rows")
    finally:
        worker.terminate()
        worker.wait()
        app.sync.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=5000, help="calls per second")
    parser.add_argument("--map-only", action="store_true")
    given = parser.parse_args()
    if given.map_only:
        geocoded(given.rows)
    else:
        main(given.rows, given.rate)
