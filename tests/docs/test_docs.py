"""The docs say what the code does: every name is there, every example runs, every link leads somewhere."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import holdfast
from holdfast import (
    At,
    Blocker,
    ChainPage,
    ChainRecord,
    Counters,
    Cron,
    Dedup,
    DeleteResult,
    EnqueueCounts,
    ErrorRecord,
    Event,
    Every,
    FailedJob,
    Flow,
    FlowProgress,
    Handle,
    Holdfast,
    HookEvent,
    Job,
    JobRecord,
    Node,
    Plan,
    Policy,
    Progress,
    Queue,
    QueueSettings,
    Rate,
    Retention,
    Retry,
    Schedule,
    Schedules,
    Signal,
    State,
    Task,
    Worker,
    errors,
)
from holdfast.app.decorator import Decorator
from holdfast.app.hooks import KNOWN as HOOKS
from holdfast.client.options import JobOptions
from holdfast.core import diagram
from holdfast.core.policy import Cause
from holdfast.core.transition import TRANSITIONS
from holdfast.store.contract import CancelResult, EventPage, JobPage, QueueInfo, SessionInfo
from holdfast.testing import contract
from holdfast.worker.outcomes import Report

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NO_PARTS = {"bench.py", "case.py", "harness.py"}
"""Files of the contract suite that have no tests of their own."""
NOT_FOR_USERS = {
    Task: {"layers"},
    EnqueueCounts: {"add"},
    Signal: {"fire"},
    Dedup: {"spec"},
    Retention: {"kept_ms"},
    Retry: {"limit", "backoff_ms", "is_permanent"},
}
DESCRIBED = (
    Holdfast, Task, Queue, Handle, Job, Signal, Worker, EnqueueCounts, Report, JobRecord, Event, ErrorRecord, FailedJob,
    Counters, Progress, HookEvent, Policy, Retry, Rate, Retention, Dedup, QueueSettings, CancelResult, EventPage,
    JobPage, QueueInfo, SessionInfo, Schedules, Schedule, Plan, Cron, Every, At, ChainRecord, ChainPage, DeleteResult,
    Blocker, Flow, FlowProgress, Node,
)  # fmt: skip
CALLED = (Holdfast.__init__, Decorator.__call__, Holdfast.queue, Worker.__init__, Task.options, Task.enqueue_many,
          Holdfast.requeue, Holdfast.jobs, Holdfast.events, Worker.run, Handle.result, Queue.call,
          Holdfast.schedule, Schedules.add, Schedules.change, Holdfast.chains, Holdfast.complete_chain,
          Holdfast.delete_chain, Holdfast.flow, Flow.add, Flow.map, Flow.start)  # fmt: skip


def code_words(path: Path) -> set[str]:
    """Return every name that a page spells as code or in a heading."""
    text = path.read_text()
    fenced = " ".join(block for _, block in FENCE.findall(text))
    prose = FENCE.sub("", text)
    spans = " ".join(re.findall(r"`([^`]+)`", prose))
    headings = " ".join(re.findall(r"^#+ (.*)$", prose, re.MULTILINE))
    return set(re.findall(r"[A-Za-z_]\w*", f"{fenced} {spans} {headings}"))


REFERENCE = {name: code_words(path) for path in (DOCS / "reference").glob("*.md") for name in [path.stem]}
EVERYWHERE: set[str] = set().union(*REFERENCE.values())


def members(kind: type) -> set[str]:
    hidden = NOT_FOR_USERS.get(kind, set())
    fields = set(getattr(kind, "__struct_fields__", ()))
    return {name for name in {*vars(kind), *fields} if not name.startswith("_")} - hidden


def missing(names: set[str] | list[str], page: str | None = None) -> list[str]:
    return sorted(set(names) - (REFERENCE[page] if page else EVERYWHERE))


# --- every name is there


def test_the_reference_names_every_public_name() -> None:
    assert missing(set(holdfast.__all__) - set(errors_by_name()), "api") == []
    assert missing(holdfast.__all__) == []


def errors_by_name() -> list[str]:
    found = vars(errors).values()
    return [each.__name__ for each in found if isinstance(each, type) and each.__module__ == errors.__name__]


def test_the_page_of_errors_names_every_error() -> None:
    assert missing(errors_by_name(), "errors") == []


def test_the_tree_of_errors_is_that_of_the_code() -> None:
    tree = next(
        block for kind, block in FENCE.findall((DOCS / "reference" / "errors.md").read_text()) if kind == "text"
    )
    depth: dict[int, str] = {}
    for line in tree.splitlines():
        name = re.search(r"\w+", line)
        assert name is not None
        level = name.start() // 4
        depth[level] = name[0]
        if level:
            assert getattr(errors, name[0]).__bases__[0].__name__ == depth[level - 1], line


@pytest.mark.parametrize("kind", DESCRIBED, ids=lambda kind: kind.__name__)
def test_the_reference_names_every_member(kind: type) -> None:
    assert missing(members(kind)) == []


@pytest.mark.parametrize("function", CALLED, ids=lambda function: function.__qualname__)
def test_the_reference_names_every_keyword(function: object) -> None:
    assert missing([name for name in inspect.signature(function).parameters if name not in ("self", "app")]) == []  # type: ignore[arg-type]


def test_the_page_of_options_names_every_option() -> None:
    settings = {name.removesuffix("_ms") for name in QueueSettings.__struct_fields__}
    assert missing({*JobOptions.__annotations__, *settings}, "options") == []


def test_the_page_of_events_names_every_field_transition_and_cause() -> None:
    causes = set(Cause) - {Cause.CANCELLED}
    assert missing({*Event.__struct_fields__, *TRANSITIONS, *causes}, "events") == []


def test_the_reference_names_every_hook_and_state() -> None:
    assert missing({*HOOKS, *State}) == []


def test_the_defaults_of_a_signature_are_those_of_the_code() -> None:
    text = (DOCS / "reference" / "api.md").read_text()
    for kind in (Retry, Retention):
        shown = ast.parse(re.search(rf"^{kind.__name__}\(\*, (.*)\)$", text, re.MULTILINE)[0].replace("*, ", ""))  # type: ignore[index]
        call = shown.body[0].value  # type: ignore[attr-defined]
        given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
        assert given == {name: getattr(kind(), name) for name in kind.__struct_fields__}


def test_the_defaults_of_a_worker_are_those_of_the_code() -> None:
    text = (DOCS / "reference" / "api.md").read_text()
    block = re.search(r"^app\.worker\(\n.*?^\)$", text, re.MULTILINE | re.DOTALL)
    assert block is not None
    shown = ast.parse(block[0].replace("*, ", ""))
    given = {each.arg: ast.literal_eval(each.value) for each in shown.body[0].value.keywords}  # type: ignore[attr-defined]
    wanted = {each.name: each.default for each in inspect.signature(Worker.__init__).parameters.values()}
    del wanted["self"], wanted["app"]
    assert given == {**wanted, "queues": None}


# --- every page is current


def test_the_state_machine_is_that_of_the_table() -> None:
    assert (DOCS / "state-machine.md").read_text() == diagram.page(), (
        "run: python -m holdfast.core.diagram > docs/state-machine.md"
    )


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text()), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)) for heading in headings]
    return {heading.lower().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    lost = []
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"\w+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            lost.append(link)
    assert lost == []


def test_the_page_of_the_contract_names_every_part_of_the_suite() -> None:
    suite = Path(contract.__file__).parent
    parts = {str(path.relative_to(suite)) for path in suite.rglob("*.py") if path.name != "__init__.py"} - NO_PARTS
    page = (DOCS / "contract.md").read_text()
    assert sorted(name for name in parts if f"`{name}`" not in page and not name.startswith("machine/")) == []


def test_the_index_leads_to_every_page() -> None:
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in LINK.findall((DOCS / "index.md").read_text())}
    assert [str(page) for page in DOCS.rglob("*.md") if page not in linked and page.name != "index.md"] == []
