"""What a key does: it changes the screen, or says what is to be done. Pure, but for the screen's own state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...core.state import FINISHED, UNFINISHED
from ...core.visible import visible
from .data import TopData
from .listing import ListRow, place_of
from .state import STATES, VIEWS, Intent, JobRef, ListedJobs, TopState

READ_ONLY = "read-only: holdfast top was started with --read-only"
MOVES = {"up": -1, "k": -1, "down": 1, "j": 1}


def press(state: TopState, key: str, rows: list[ListRow], data: TopData, page: int) -> Intent | None:
    """Return what a key asks for; `rows` are those of the list on the screen, `page` how many of them are seen."""
    if state.confirm is not None:
        return _answer(state, key)
    if state.typing is not None:
        return _type(state, key)
    state.message = ""
    if state.help:
        state.help = False
        return None
    if key == "q":
        return Intent("quit")
    if _move(state, key, rows, page) or _switch(state, key):
        return None
    act = ACTIONS.get(key)
    return act(state, rows, data) if act else None


def _answer(state: TopState, key: str) -> Intent | None:
    intent, state.confirm = state.confirm, None
    if key in ("y", "Y"):
        return intent
    state.say("not done")
    return None


def _type(state: TopState, key: str) -> Intent | None:
    purpose = state.typing
    if key == "escape":
        state.typing, state.typed = None, ""
        if purpose == "filter":
            state.tab.wanted = ""
    elif key == "enter":
        word, state.typing, state.typed = state.typed, None, ""
        if purpose == "open" and word:
            return _open(state, JobRef(None, word))
    elif key == "backspace":
        state.typed = state.typed[:-1]
    elif len(key) == 1:
        state.typed += key
    if state.typing == "filter":
        state.tab.wanted = state.typed
    return None


def _move(state: TopState, key: str, rows: list[ListRow], page: int) -> bool:
    steps = {**MOVES, "pageup": -page, "pagedown": page, "home": -(10**6), "g": -(10**6), "end": 10**6, "G": 10**6}
    if key not in steps:
        return False
    if state.view == "job":
        state.scroll = max(0, state.scroll + steps[key])
    elif rows:
        place = place_of(rows, state.tab.selected) + steps[key]
        state.tab.selected = rows[max(0, min(len(rows) - 1, place))].key
    return True


def _switch(state: TopState, key: str) -> bool:
    if key in ("tab", "backtab"):
        at = VIEWS.index(state.view) if state.view in VIEWS else 0
        state.show(VIEWS[(at + (1 if key == "tab" else -1)) % len(VIEWS)])
    elif key in ("1", "2", "3", "4"):
        state.show(VIEWS[int(key) - 1])
    elif key == "?":
        state.help = True
    elif key == "/" and state.view != "job":
        state.typing, state.typed = "filter", state.tab.wanted
    elif key == "o":
        state.typing, state.typed = "open", ""
    elif key == " ":
        state.frozen = not state.frozen
    else:
        return False
    return True


def selected(state: TopState, rows: list[ListRow]) -> ListRow | None:
    """Return the selected row."""
    return rows[place_of(rows, state.tab.selected)] if rows else None


def _open(state: TopState, ref: JobRef) -> Intent:
    state.came_from = state.view if state.view != "job" else state.came_from
    state.job = ref
    state.show("job")
    return Intent("refresh")


def _enter(state: TopState, rows: list[ListRow], data: TopData) -> Intent | None:
    row = selected(state, rows)
    if row is None or state.view == "job":
        return None
    if state.view == "jobs":
        queue, id, run = row.key
        return _open(state, JobRef(queue, id, int(run)))
    if state.view == "failures":
        _, queue, id, run = row.key
        return _open(state, JobRef(queue, id, int(run)))
    if state.view == "workers":
        state.jobs = ListedJobs(worker=row.key[0], worker_name=row.key[1])
    else:
        state.jobs = ListedJobs(queue=row.key[0])
    state.show("jobs")
    return Intent("refresh")


def _back(state: TopState, rows: list[ListRow], data: TopData) -> Intent | None:
    if state.view == "job":
        state.show(state.came_from)
    elif state.tab.wanted:
        state.tab.wanted = ""
    elif state.view == "jobs":
        state.show("workers" if state.jobs.worker is not None else "queues")
    return Intent("refresh")


def _sort(state: TopState, rows: list[ListRow], data: TopData) -> None:
    columns = len(rows[0].cells) if rows else 0
    if columns:
        state.tab.sort = 0 if state.tab.sort is None else (state.tab.sort + 1) % columns


def _reverse(state: TopState, rows: list[ListRow], data: TopData) -> None:
    state.tab.reverse = not state.tab.reverse


def _states(state: TopState, rows: list[ListRow], data: TopData) -> Intent | None:
    if state.view == "jobs" and state.jobs.worker is None:
        now = STATES[(STATES.index(state.jobs.state) + 1) % len(STATES)]
        state.jobs = ListedJobs(queue=state.jobs.queue, state=now)
        return Intent("refresh")
    return None


def _next_page(state: TopState, rows: list[ListRow], data: TopData) -> Intent | None:
    cursor = data.jobs.cursor if data.jobs else None
    if state.view == "jobs" and cursor is not None:
        state.jobs = replace(state.jobs, cursors=(*state.jobs.cursors, cursor))
        return Intent("refresh")
    return None


def _page_before(state: TopState, rows: list[ListRow], data: TopData) -> Intent | None:
    if state.view == "jobs" and state.jobs.cursors:
        state.jobs = replace(state.jobs, cursors=state.jobs.cursors[:-1])
        return Intent("refresh")
    return None


def _ask(state: TopState, intent: Intent) -> Intent | None:
    """Have an intent confirmed, where it has a question; refuse it where nothing may be changed."""
    if state.read_only:
        state.say(READ_ONLY, error=True)
    elif intent.question:
        state.confirm = intent
    else:
        return intent
    return None


def _pause(state: TopState, rows: list[ListRow], data: TopData) -> Intent | None:
    row = selected(state, rows)
    info = data.queue(row.key[0]) if row is not None and state.view == "queues" else None
    if info is None:
        return None
    if info.settings.paused:
        return _ask(state, Intent("resume", queue=info.name))
    return _ask(state, Intent("pause", queue=info.name, question=f"pause {visible(info.name)}?"))


def _requeue(state: TopState, rows: list[ListRow], data: TopData) -> Intent | None:
    row = selected(state, rows)
    if state.view == "job":
        return _requeue_open_job(state, data)
    if row is None or state.view == "workers":
        return None
    if state.view == "queues":
        info = data.queue(row.key[0])
        dead = info.counts.get("failed", 0) if info else 0
        if not dead:
            state.say(f"{visible(row.key[0])} has no failed jobs")
            return None
        question = f"requeue the {dead} failed {'job' if dead == 1 else 'jobs'} of {visible(row.key[0])}?"
        return _ask(state, Intent("requeue_queue", queue=row.key[0], question=question))
    if state.view == "failures":
        question = f"requeue all dead letters like {visible(row.key[2])} ({row.cells[0].plain})?"
        return _ask(state, Intent("requeue_group", signature=row.key[0], question=question))
    queue, id, run = row.key
    return _ask(state, _requeue_job(queue, id, int(run)))


def _requeue_job(queue: str, id: str, run: int) -> Intent:
    return Intent("requeue_job", queue=queue, id=id, run=run, question=f"requeue {visible(queue)}/{visible(id)}?")


def _requeue_open_job(state: TopState, data: TopData) -> Intent | None:
    record = data.detail.record if data.detail else None
    if record is None:
        return None
    if record.state not in FINISHED:
        state.say(f"it is {record.state}: only finished jobs are requeued")
        return None
    return _ask(state, _requeue_job(record.queue, record.id, record.run))


def _cancel(state: TopState, rows: list[ListRow], data: TopData) -> Intent | None:
    row = selected(state, rows)
    if state.view == "job" and data.detail and data.detail.record:
        record = data.detail.record
        if record.state not in UNFINISHED:
            state.say(f"it is {record.state} already")
            return None
        queue, id = record.queue, record.id
    elif state.view == "jobs" and row is not None:
        queue, id, _ = row.key
    else:
        return None
    question = f"cancel {visible(queue)}/{visible(id)}? One that runs is told to stop."
    return _ask(state, Intent("cancel_job", queue=queue, id=id, question=question))


Action = Callable[[TopState, list[ListRow], TopData], Intent | None]
ACTIONS: dict[str, Action] = {
    "enter": _enter,
    "right": _enter,
    "escape": _back,
    "backspace": _back,
    "left": _back,
    "s": _sort,
    "S": _reverse,
    "f": _states,
    "n": _next_page,
    "b": _page_before,
    "p": _pause,
    "r": _requeue,
    "c": _cancel,
}

HELP = (
    ("1 2 3 4, Tab", "queues, workers, failures, jobs"),
    ("up down, j k", "select; PgUp PgDn Home End"),
    ("Enter", "open: the jobs of a queue or a worker, a job, the sample of a failure"),
    ("Esc, left", "back; takes a filter away"),
    ("/", "filter the list by a word; Esc takes it away"),
    ("s, S", "sort by the next column; the other way round"),
    ("f", "jobs: all, waiting, active, scheduled, blocked, failed, completed, cancelled"),
    ("n, b", "jobs: the next page, the page before"),
    ("o", "open a job by its id"),
    ("p", "pause or resume the selected queue"),
    ("r", "requeue: the failed jobs of a queue, a group of failures, or one job"),
    ("c", "cancel a job"),
    ("Space", "stop moving, and go on"),
    ("Ctrl-L", "draw anew"),
    ("q", "quit"),
)
