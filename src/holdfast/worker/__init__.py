"""Running jobs: claim, run, settle, and let nothing fall."""

from .outcomes import Report
from .upkeep.maintainer import Maintained, Maintainer
from .worker import Worker

__all__ = ["Maintained", "Maintainer", "Report", "Worker"]
