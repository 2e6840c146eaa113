"""Worker processes: several of `holdfast worker`, watched, replaced when they die, and stopped together."""

from .keeper import ProcessesReport
from .supervisor import WorkerProcesses

__all__ = ["ProcessesReport", "WorkerProcesses"]
