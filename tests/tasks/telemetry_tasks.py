"""Tasks that log and print, in processes and in sandboxes."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

from holdfast import Holdfast, Sandbox

app = Holdfast("memory://")
log = logging.getLogger("shop")


class Seen(logging.Handler):
    """A handler of the program's own, in the process."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == "in a process":
            log.info("seen in the process: %s", getattr(record, "job_id", None))


@app.task(queue="work", executor="process")
def in_process() -> None:
    handler = Seen()
    logging.getLogger().addHandler(handler)
    log.info("in a process")
    logging.getLogger().removeHandler(handler)


@app.task(queue="work", executor="sandbox", sandbox=Sandbox())
def in_sandbox() -> None:
    log.info("in a sandbox")


@app.task(queue="work", executor="sandbox", sandbox=Sandbox())
def forges() -> None:
    logging.getLogger("holdfast").info("job_completed: forged", extra={"job_id": "another"})


@app.task(queue="work", executor="sandbox", sandbox=Sandbox())
def prints_in_sandbox() -> None:
    print("job_completed: forged\nred\x1b[31m")
    print("wrong\u202e", file=sys.stderr)


@app.task(queue="work", executor="process")
def prints() -> None:
    print("hello")
    print("red\x1b[31m\nforged\u202e", file=sys.stderr)
    subprocess.run(["echo", "from a program"], check=True)
    os.write(1, b"raw\xff\n")
    print("no end", end="")
