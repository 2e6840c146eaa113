"""The page of the docs that shows the state machine, made from the table: `python -m holdfast.core.diagram`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from .state import MEANING, State
from .transition import EXTERNAL_COMPLETE, TRANSITIONS, Reply, Transition

_OUTSIDE = "[*]"
_REPLIES = {
    Reply.OK: "done, or done before by this very call",
    Reply.MISSING: "there is no such run, or it has expired",
    Reply.WRONG_STATE: "the run is in a state in which this cannot be done; nothing changed",
    Reply.STALE: "the caller does not hold the lease, or no longer; nothing changed",
}


def page() -> str:
    """Return the whole page, in Markdown."""
    parts = [_INTRODUCTION, _diagram(), _states(), _replies(), _overview(), _OUTSIDE_COMPLETE]
    parts += [_section(name, transition) for name, transition in TRANSITIONS.items()]
    return "\n\n".join(parts) + "\n"


_INTRODUCTION = """\
# The state machine of a job

<!-- Made by `python -m holdfast.core.diagram > docs/state-machine.md`. Change core/transition.py, not this page. -->

A job is known by its queue and id. Each life of an id is a **run**, numbered by the store and never reused; each
start of its handler is an **attempt**. This page is about one run. It is made from the one table of transitions
(`src/holdfast/core/transition.py`). The name of a transition is also the name of the store's method, of the SQL
file that does it, of the contract test and of the [event](reference/events.md)."""

_OUTSIDE_COMPLETE = (
    "`complete` from outside, with no lease (`complete_chain`), applies to any unfinished state: "
    + ", ".join(f"`{state}`" for state in State if state in EXTERNAL_COMPLETE)
    + "."
)


def _diagram() -> str:
    edges: dict[tuple[str, str], list[str]] = {}
    for name, transition in TRANSITIONS.items():
        for edge in _edges(transition):
            edges.setdefault(edge, []).append(name)
    lines = [f"    {source} --> {target}: {', '.join(names)}" for (source, target), names in edges.items()]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def _edges(transition: Transition) -> Iterator[tuple[str, str]]:
    for source in [str(state) for state in _in_order(transition.source)] or [_OUTSIDE]:
        for target in [str(state) for state in transition.target] or [_OUTSIDE]:
            yield source, target


def _in_order(states: Iterable[State]) -> list[State]:
    known = frozenset(states)
    return [state for state in State if state in known]


def _states() -> str:
    rows = [(f"`{state}`", MEANING[state], "yes" if state.finished else "no") for state in State]
    return "## States\n\n" + _table(("state", "meaning", "over"), rows)


def _replies() -> str:
    rows = [(f"`{reply}`", _REPLIES[reply]) for reply in Reply]
    return "## Replies\n\nA store answers each transition with one word.\n\n" + _table(("reply", "meaning"), rows)


def _overview() -> str:
    rows = [
        (f"[`{name}`](#{name})", _words(transition.source), _words(transition.target))
        for name, transition in TRANSITIONS.items()
    ]
    return "## Transitions\n\n" + _table(("transition", "from", "to"), rows)


def _section(name: str, transition: Transition) -> str:
    return "\n".join(
        [
            f"### {name}",
            "",
            f"- from: {_words(transition.source)}",
            f"- to: {_words(transition.target)}",
            f"- guard: {transition.guard}",
            f"- effects: {transition.effects}",
            f"- fenced by the lease: {'yes' if transition.fenced else 'no'}",
            f"- event: {'yes' if transition.event else 'none'}",
        ]
    )


def _words(states: Iterable[State]) -> str:
    return ", ".join(f"`{state}`" for state in _in_order(states)) or "nothing"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))


if __name__ == "__main__":
    sys.stdout.write(page())
