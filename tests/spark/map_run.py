"""A driver that maps numbers through `wait` of an app and prints the results as JSON; `test_driver_kill` kills it."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

from lean_spark import LEAN

from holdfast.spark import map, session

ROWS = 40


def main(file: Path) -> None:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    spark = session("local[2]", conf=LEAN, log_level="off")
    rows = spark.range(ROWS).selectExpr("id AS number")
    found = map(rows, module.wait, app=f"{file}:app", name="slow", workers=1, slots=4, timeout=150)
    print(json.dumps([[row.number, row.state, row.result] for row in found.collect()]))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
