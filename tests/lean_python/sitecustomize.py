"""Python processes of a lean Spark import pyspark from where it is installed, not from the archive that Spark prefers.

Of an archive nothing stays compiled: each such process would compile pyspark again, which takes more than it has to do.
"""

from __future__ import annotations

import sys

sys.path[:] = [place for place in sys.path if not place.endswith("/pyspark.zip")]
