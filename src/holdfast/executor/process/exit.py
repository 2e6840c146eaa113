"""How a process exited that should not have, as errors of the attempts in it."""

from __future__ import annotations

import signal

from ...core.job import ErrorRecord
from ...core.policy import Cause
from ...errors import HoldfastError

LEASE_OVER = 197
"""The exit code of a process whose worker's lease ended while it was at work."""
WORKER_GONE = 198
"""The exit code of a process that lost its worker."""
OUT_OF_MEMORY = (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT, WORKER_GONE)
"""How a process may end for which no more memory is there: native code is seldom ready for that."""


class Evacuated(HoldfastError):
    """The process was ended because of another job in it, or with the worker's lease: the job is handed back."""

    def __init__(self, *, is_to_blame: bool = False) -> None:
        super().__init__()
        self.is_to_blame = is_to_blame
        """Its handler held up the others in the process."""


class Unstartable(HoldfastError):
    """The process could not start: the record says why."""

    def __init__(self, record: ErrorRecord) -> None:
        super().__init__(f"its process could not start: {record.type}: {record.message}")
        self._record = ErrorRecord(
            type=record.type, message=f"its process could not start: {record.message}", traceback=record.traceback
        )


class ProcessDied(HoldfastError):
    """The process died while the job ran in it."""

    def __init__(
        self,
        code: int,
        times: int,
        *,
        company: int,
        why: str = "",
        is_over_limit: bool = False,
        memory: int | None = None,
    ) -> None:
        super().__init__(f"{_blame(company == 1, times)}: {why or how_it_ended(code, memory)}")
        self.code = code
        self.company = company
        """How many jobs ran in it."""
        self.is_over_limit = is_over_limit
        """Its sandbox ended it, for what it had too much of."""

    def record(self) -> ErrorRecord:
        """Return what is stored with the job."""
        if self.is_over_limit:
            return ErrorRecord(type="SandboxLimit", message=str(self))
        return ErrorRecord(type="ProcessDied", message=str(self), kind=Cause.STALL, fields={"exit_code": self.code})


def _blame(alone: bool, times: int) -> str:
    if not alone:
        return f"its process died, with other jobs in it; {times} stalls"
    return "it killed its process" + (f" {times} times" if times > 1 else "")


def how_it_ended(code: int, memory: int | None = None) -> str:
    """Return how a process ended, which had so many bytes of memory in its sandbox, if in one."""
    if memory is not None and code in OUT_OF_MEMORY:
        return f"{how_it_ended(code)}, perhaps for lack of memory: its sandbox allows {memory >> 20} MB"
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    out_of_memory = ", perhaps by the kernel for lack of memory" if code == -signal.SIGKILL else ""
    return f"signal {-code}, {name}{out_of_memory}"
