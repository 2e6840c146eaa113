"""Options are spelled once: what is typed for callers is what the code behind takes."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import get_type_hints

import holdfast
from holdfast import Worker
from holdfast.app.options import WORKER_COMMAND_OPTIONS, Adjustments, LiveQueueOptions, QueueOptions, WorkerOptions
from holdfast.app.settings import LIVE_QUEUE_SETTINGS, QUEUE_SETTINGS
from holdfast.cli.worker.worker import worker as command
from holdfast.core.policy import ADJUSTABLE


def test_a_worker_takes_the_options_that_are_typed_for_it() -> None:
    taken = inspect.signature(Worker.__init__).parameters
    if any(each.kind is each.VAR_KEYWORD for each in taken.values()):
        return  # it takes `WorkerOptions` itself
    known = {name for name, each in taken.items() if each.kind is each.KEYWORD_ONLY}
    assert known == set(WorkerOptions.__annotations__)
    hints = get_type_hints(Worker.__init__, localns={"Holdfast": holdfast.Holdfast})
    assert {name: hints[name] for name in known} == get_type_hints(WorkerOptions)


def test_the_command_line_has_every_option_of_a_worker() -> None:
    assert set(WORKER_COMMAND_OPTIONS) <= {each.name for each in command.params}


def test_what_is_typed_of_queues_and_tasks_is_what_they_have() -> None:
    assert set(LiveQueueOptions.__annotations__) == set(LIVE_QUEUE_SETTINGS)
    assert set(QUEUE_SETTINGS) <= set(QueueOptions.__annotations__)
    assert {name.replace("timeout_ms", "timeout") for name in ADJUSTABLE} == set(Adjustments.__annotations__)


def test_no_public_signature_takes_anything_by_keyword() -> None:
    root = Path(holdfast.__file__).parent
    public = [root / name for name in ("app/app.py", "app/queue.py", "app/task.py", "supervisor/supervisor.py")]
    assert [str(path) for path in public if re.search(r"\*\*\w+: (Any|object)\b", path.read_text("utf-8"))] == []
