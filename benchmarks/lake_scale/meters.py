"""What an increment costs: time, processor time of each process, memory, bytes and files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.processor import below, processor_time

Figures = dict[str, float]


@dataclass
class Spent:
    """The figures of one measurement."""

    figures: Figures = field(default_factory=dict)


class Meters:
    """Measures this process (the driver), its JVM, and the Python processes that Spark has started."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]

    @contextmanager
    def running(self) -> Iterator[Spent]:
        """Measure what is done in the block."""
        spent, before = Spent(), self._now()
        _forget_peak(os.getpid())
        yield spent
        after = self._now()
        spent.figures = {name: after[name] - before[name] for name in after}
        spent.figures["driver's peak, MB"] = _status(os.getpid())["VmHWM"] / 1024

    def jvm_figures(self) -> Figures:
        """Return the JVM's peak, and its heap after a collection: what it keeps."""
        self._spark._jvm.java.lang.System.gc()  # type: ignore[union-attr]
        memory = self._spark._jvm.java.lang.management.ManagementFactory.getMemoryMXBean()  # type: ignore[union-attr]
        return {
            "JVM's heap after collection, MB": memory.getHeapMemoryUsage().getUsed() / 2**20,
            "JVM's peak, MB": _status(self._jvm)["VmHWM"] / 1024,
        }

    def _now(self) -> Figures:
        inside, written, rows = _spark_bytes(self._spark)
        mine = _io(os.getpid())
        workers = sum(map(processor_time, below(self._jvm)))
        return {
            "seconds": time.perf_counter(),
            "driver, processor s": time.process_time(),
            "JVM, processor s": processor_time(self._jvm),
            "Python workers, processor s": workers,
            "Spark read, MB": inside / 1e6,
            "Spark read, rows": rows,
            "Spark wrote, MB": written / 1e6,
            "driver read, MB": mine["rchar"] / 1e6,
            "driver wrote, MB": mine["wchar"] / 1e6,
        }


def _spark_bytes(spark: SparkSession) -> tuple[int, int, int]:
    """Return bytes read and written, and rows read, of all stages so far."""
    context = spark.sparkContext._jsc.sc()  # type: ignore[union-attr]
    context.listenerBus().waitUntilEmpty()
    stages = context.statusStore().stageList(None, False, False, _no_quantiles(spark), None)
    every = [stages.apply(number) for number in range(stages.size())]
    return (
        sum(each.inputBytes() for each in every),
        sum(each.outputBytes() for each in every),
        sum(each.inputRecords() for each in every),
    )


def _no_quantiles(spark: SparkSession) -> object:
    return spark.sparkContext._gateway.new_array(spark._jvm.double, 0)  # type: ignore[union-attr]


def _io(pid: int) -> Mapping[str, int]:
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return {name: int(value) for name, value in (line.split(": ") for line in lines)}


def _status(pid: int) -> Mapping[str, int]:
    """Return what a process holds, in kB."""
    lines = [line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.endswith("kB")]
    return {name.rstrip(":"): int(value) for name, value, _ in lines}


def _forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")
