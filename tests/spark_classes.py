"""`python tests/spark_classes.py` starts Spark once, so that the archive of its classes is there for the tests.

They start some twenty JVMs, several at once: each would load its classes the slow way, and write an archive of its own.
"""

from __future__ import annotations

import sys

from holdfast.errors import HoldfastError
from holdfast.spark import session
from holdfast.spark.session.class_archive import ClassArchive
from holdfast.spark.session.java import find_java


def main() -> None:
    """The archive is there, unless Spark does not start here, of which its tests tell more."""
    try:
        archive = ClassArchive.of(find_java())
        if archive is not None and not archive.path.exists():
            session("local[1]", log_level="off").range(1).collect()
    except HoldfastError as error:
        print(f"Spark's classes are not archived: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
