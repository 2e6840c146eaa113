"""Producing from code that has no event loop: Flask and Django views, scripts, notebooks.

`app.sync(...)` takes what `await` would take. Here the views are plain functions; in Flask they would carry
`@flask.route`. The worker is another process, as it would be in production:
`holdfast worker sync_flask_style:app`.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from holdfast import Holdfast, JobFailed, JobMissing, Permanent

app = Holdfast(os.environ.get("SHOP_URL", "sqlite:///shop.db"))


@app.task(queue="mail")
async def welcome(address: str) -> str:
    return f"welcomed {address}"


@app.task(queue="prices")
def quote(item: str, count: int) -> int:
    if item == "moon":
        raise Permanent("the moon is not for sale")
    return 250 * count


def view_sign_up(form: dict[str, str]) -> tuple[dict[str, str], int]:
    """POST /sign-up: answer at once; a double click makes one job."""
    once = welcome.options(job_id=f"welcome-{form['address']}")
    handle = app.sync(once.enqueue(form["address"]))
    return {"job": handle.id, "status": handle.status}, 202


def view_job(job_id: str) -> tuple[dict[str, str], int]:
    """GET /jobs/<id>."""
    try:
        return {"state": app.sync(welcome.status(job_id)).state}, 200
    except JobMissing as error:
        return {"error": str(error)}, 404


def view_quote(item: str, count: int) -> tuple[dict[str, int | str], int]:
    """GET /quote: the answer of another process, within the request."""
    try:
        return {"cents": app.sync(quote.call_within(10, item, count))}, 200
    except JobFailed as error:
        return {"error": str(error)}, 422


def main() -> None:
    worker = subprocess.Popen([sys.executable, __file__, "worker"])
    try:
        with app.sync:
            print(view_sign_up({"address": "ann@example.com"}))
            print(view_sign_up({"address": "ann@example.com"}))
            print(view_quote("lamp", 3))
            print(view_quote("moon", 1))
            print(app.sync(welcome.result("welcome-ann@example.com")))
            print(view_job("welcome-ann@example.com"))
            print(view_job("welcome-nobody"))
    finally:
        worker.terminate()
        worker.wait()


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        asyncio.run(app.worker().run(signals=True))
    elif "SHOP_URL" in os.environ:
        main()
    else:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["SHOP_URL"] = f"sqlite:///{Path(folder) / 'shop.db'}"
            subprocess.run([sys.executable, __file__], check=True)
