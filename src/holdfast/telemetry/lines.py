"""Lines of a log, for people or as JSON: whatever jobs carry, it begins no line and steers no terminal."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from ..core.state import State
from ..core.visible import indented, visible, visible_json
from ..store.contract import Claimed, Lease
from .context import trace_id
from .observer import Ended, waited_ms

_encode = msgspec.json.Encoder(enc_hook=lambda value: _shown(value)).encode
MOST_TEXT = 16_000
"""What a line shows of an error's message or of a traceback at most, in characters."""


_COMPLETED = State.COMPLETED
LineOf = Callable[[Ended], str]
"""Makes the line of an attempt that ended in another way; an empty one for none."""


class JobLine(msgspec.Struct):
    """What a line tells of an attempt, beside what it tells of its job."""

    level: int
    event: str
    claimed: Claimed
    waited: float
    ran: float | None = None
    error_type: str | None = None
    error_message: str = ""
    traceback: str = ""
    retry_in: float | None = None
    cause: str | None = None
    detail: str = ""

    def words(self) -> str:
        """Return what is said of the attempt for people, after which job it is of."""
        told = f" run {self.claimed.lease.run} attempt {self.claimed.lease.attempt} waited {self.waited:.3f} s"
        if self.ran is not None:
            told += f" ran {self.ran:.3f} s"
        if self.cause is not None:
            told += f" for {self.cause}"
        if self.retry_in is not None:
            told += f", again in {self.retry_in:.3g} s"
        if self.error_type is not None:
            told += f": {self.error_type}: {self.error_message[:MOST_TEXT]}"
        return told + (f": {self.detail}" if self.detail else "")

    def text(self) -> str:
        """Return the message of a record."""
        return f"{self.event}: {named(self.claimed.task, self.claimed.lease)}{self.words()}"

    def fields(self) -> dict[str, object]:
        """Return the fields of a record, all of them by name; those that do not apply are left out."""
        lease = self.claimed.lease
        found = {
            "event": self.event, "task": self.claimed.task, "queue": lease.queue, "job_id": lease.id,
            "run": lease.run, "attempt": lease.attempt, "trace_id": trace_id(self.claimed.envelope.headers),
            "waited": round(self.waited, 3), "ran": None if self.ran is None else round(self.ran, 6),
            "cause": self.cause, "retry_in": self.retry_in, "error_type": self.error_type,
            "error_message": None if self.error_type is None else self.error_message[:MOST_TEXT],
            "detail": self.detail or None,
        }  # fmt: skip
        return {name: value for name, value in found.items() if value is not None}


def named(task: str | None, lease: Lease) -> str:
    """Return how lines name a job: its task, queue and id."""
    return f"{task} {lease.queue}/{lease.id}" if task else f"{lease.queue}/{lease.id}"


class HumanFormat(logging.Formatter):
    """One line a record, for people, with tracebacks indented below it and the handler's job behind it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._names: dict[tuple[str | None, str], str] = {}

    def format(self, record: logging.LogRecord) -> str:
        if record.exc_info and record.exc_info[0] is not None and not record.exc_text:
            record.exc_text = indented("".join(traceback.format_exception(*record.exc_info)).rstrip("\n"))
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:
        told = record.message
        if not hasattr(record, "event") and (job := getattr(record, "job_id", None)) is not None:
            told += f" [{getattr(record, 'queue', None)}/{job}]"
        record.message = told
        return visible(super().formatMessage(record))

    def formatStack(self, stack_info: str) -> str:
        return indented(stack_info)

    def head(self, level: int, logger: str) -> str:
        """Return how lines of this moment begin."""
        now = time.time()
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
        return f"{stamp},{int(now % 1 * 1000):03d} {logging.getLevelName(level)} {visible(logger)}: "

    def turn(self, logger: str, worker: str, ended: Sequence[Ended], other: LineOf) -> list[str]:
        """Return the lines of attempts that were settled just now: those of completed jobs at the lowest cost."""
        head, lines, task, queue = self.head(logging.INFO, logger), list[str](), None, None
        for each in ended:
            claimed, ran, settled = each.claimed, each.ran, each.settled
            if ran is None or settled is None or settled.state is not _COMPLETED:
                lines.append(other(each))
                continue
            lease = claimed.lease
            if lease.queue != queue or claimed.task != task:
                queue, task = lease.queue, claimed.task
                start = head + (self._names.get((task, queue)) or self._name(claimed))
            id, waited, took = lease.id, _seconds[waited_ms(claimed)], _seconds[int(ran * 1000 + 0.5)]
            if not (id.isascii() and id.isprintable()):
                id = visible(id)
            lines.append(f"{start}{id} run {lease.run} attempt {lease.attempt} waited {waited} s ran {took} s\n")
        return lines

    def _name(self, claimed: Claimed) -> str:
        name = visible(
            f"job_completed: {claimed.task} {claimed.lease.queue}/"
            if claimed.task
            else f"job_completed: {claimed.lease.queue}/"
        )
        return _kept(self._names, (claimed.task, claimed.lease.queue), name)

    def job(self, logger: str, worker: str, line: JobLine) -> str:
        """Return the line of an attempt, with its traceback below."""
        told = self.head(line.level, logger) + visible(line.text()) + "\n"
        return f"{told}{indented(line.traceback[-MOST_TEXT:].rstrip())}\n" if line.traceback else told

    def text(self, level: int, logger: str, event: str, message: str) -> str:
        """Return a line of Holdfast's own."""
        return self.head(level, logger) + visible(f"{event}: {message}") + "\n"


class JsonFormat(logging.Formatter):
    """One JSON object a record, in one line of printable text."""

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[tuple[str | None, str], tuple[str, str]] = {}

    def format(self, record: logging.LogRecord) -> str:
        found: dict[str, object] = {
            "time": _iso(record.created), "level": record.levelname.lower(), "logger": record.name,
            "message": record.getMessage(),
        }  # fmt: skip
        for name, value in record.__dict__.items():
            if name not in _STANDARD and value is not None:
                found.setdefault(name, value)
        if "traceback" not in found:
            found |= _error_of(record)
        return _json(found)

    def head(self, level: int, logger: str) -> str:
        """Return how lines of this moment begin."""
        name = logging.getLevelName(level).lower()
        return f'{{"time":"{_iso(time.time())}","level":"{name}","logger":{_json(logger)},'

    def turn(self, logger: str, worker: str, ended: Sequence[Ended], other: LineOf) -> list[str]:
        """Return the lines of attempts that were settled just now: those of completed jobs at the lowest cost."""
        head, lines, task, queue = self.head(logging.INFO, logger), list[str](), None, None
        for each in ended:
            claimed, ran, settled = each.claimed, each.ran, each.settled
            if ran is None or settled is None or settled.state is not _COMPLETED:
                lines.append(other(each))
                continue
            lease, headers = claimed.lease, claimed.envelope.headers
            if lease.queue != queue or claimed.task != task:
                queue, task = lease.queue, claimed.task
                start, names = self._names.get((task, queue)) or self._name(claimed)
                start = head + start
            id, waited = lease.id, _seconds[waited_ms(claimed)]
            if not (id.isascii() and id.isprintable()) or '"' in id or "\\" in id:
                id = _json(id)[1:-1]
            trace = f',"trace_id":"{found}"' if headers and (found := trace_id(headers)) else ""
            lines.append(
                f'{start}{id}{names}{id}","run":{lease.run},"attempt":{lease.attempt},"waited":{waited},'
                f'"ran":{ran:.6f}{trace},"worker":{worker}}}\n'
            )
        return lines

    def _name(self, claimed: Claimed) -> tuple[str, str]:
        queue, task = claimed.lease.queue, claimed.task
        message = _json(f"job_completed: {task} {queue}/" if task else f"job_completed: {queue}/")
        told = f'"task":{_json(task)},' if task else ""
        names = f'"message":{message[:-1]}', f'","event":"job_completed",{told}"queue":{_json(queue)},"job_id":"'
        return _kept(self._names, (task, queue), names)

    def job(self, logger: str, worker: str, line: JobLine) -> str:
        """Return the line of an attempt, its traceback as a field."""
        told = line.fields() | {"worker": msgspec.json.decode(worker)}
        if line.traceback:
            told["traceback"] = line.traceback[-MOST_TEXT:]
        return self.head(line.level, logger) + _json({"message": line.text(), **told})[1:] + "\n"

    def text(self, level: int, logger: str, event: str, message: str) -> str:
        """Return a line of Holdfast's own."""
        return self.head(level, logger) + _json({"message": f"{event}: {message}", "event": event})[1:] + "\n"


LineFormat = HumanFormat | JsonFormat
_STANDARD = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})
"""What every record has. All else is shown: fields of a job, Holdfast's own, and the program's `extra`."""


def format_of(name: str) -> LineFormat:
    """Return the format of this name."""
    return JsonFormat() if name == "json" else HumanFormat()


class _Seconds(dict[int, str]):
    """By milliseconds: seconds as text, of which most jobs have some that others had."""

    def __missing__(self, ms: int) -> str:
        if len(self) >= MOST_TIMES:
            self.clear()
        text = self[ms] = f"{ms / 1000:.3f}"
        return text


MOST_TIMES = 10_000
_seconds = _Seconds()


def worker_name(name: str) -> str:
    """Return a worker's name as `JsonFormat.turn` wants it: as JSON."""
    return _json(name)


MOST_NAMES = 1_000
_T = TypeVar("_T")


def _kept(names: dict[tuple[str | None, str], _T], key: tuple[str | None, str], value: _T) -> _T:
    """Return the value, kept for the next line: tasks and queues are few, but a store may say anything."""
    if len(names) >= MOST_NAMES:
        names.clear()
    names[key] = value
    return value


def _error_of(record: logging.LogRecord) -> dict[str, object]:
    if record.exc_info and record.exc_info[0] is not None:
        kind, error = record.exc_info[0], record.exc_info[1]
        trace = "".join(traceback.format_exception(*record.exc_info))
        return {"error_type": kind.__qualname__, "error_message": _said(error), "traceback": trace[-MOST_TEXT:]}
    return {"traceback": record.exc_text[-MOST_TEXT:]} if record.exc_text else {}


def _said(error: BaseException | None) -> str:
    try:
        return str(error)[:MOST_TEXT]
    except Exception:
        return ""  # an exception of a program may raise another


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _json(value: object) -> str:
    try:
        return visible_json(_encode(value).decode())
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError):  # half a surrogate pair, or odd keys
        return visible_json(_encode(_plain(value)).decode())


def _plain(value: object) -> object:
    """Return what can be encoded in any case, and says the same to people."""
    if isinstance(value, dict):
        return {
            str(_plain(name)): _plain(each) if isinstance(each, str) else _shown(each) for name, each in value.items()
        }
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else _shown(value)


def _shown(value: object) -> object:
    if value is None or isinstance(value, int | float):
        return value
    try:
        return repr(value).encode("utf-8", "backslashreplace").decode()
    except Exception:
        return f"<{type(value).__name__}>"
