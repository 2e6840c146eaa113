"""What every page has round its own content: the menu, the note of what was just done, the way back."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response

from ...core.event import Event
from ...core.job import JobRecord
from ...core.state import State
from ...errors import StoreError
from ...store import shown
from ..address import root_of
from ..site import Site, site_of
from ..templates import environment, page
from . import words

MENU = (
    ("overview", "Overview", "/", "go"),
    ("queues", "Queues", "/queues", "gq"),
    ("jobs", "Jobs", "/jobs", "gj"),
    ("chains", "Chains", "/chains", "gc"),
    ("failures", "Failures", "/failures", "gf"),
    ("schedules", "Schedules", "/schedules", "gs"),
    ("workers", "Workers", "/workers", "gw"),
    ("events", "Events", "/events", "ge"),
    ("lake", "Lake", "/lake", "gl"),
)
"""Name, label, path and keys of each page of the menu."""
NOTE = "holdfast_note"
THEME = "holdfast_theme"
YEAR = 365 * 86400


class Note(msgspec.Struct, frozen=True):
    """What a page says of what was just done."""

    text: str
    level: str = "good"


async def show(request: Request, here: str, template: str, *, still: bool = False, **values: Any) -> Response:
    """Return a page of the dashboard, with its menu. A still one is the answer to a form, and cannot be read again."""
    site = site_of(request)
    recent = site.recent
    note = _note(request)
    made = page(
        request, template, here=here, still=still, note=note, menu=await _menu(site), back=here_of(request),
        store=shown(site.app.store.url), now_ms=recent.now_ms, moment=partial(words.moment, now_ms=recent.now_ms),
        **values,
    )  # fmt: skip
    if note is not None:
        made.delete_cookie(NOTE, path=root_of(request) or "/")
    return made


async def _menu(site: Site) -> list[tuple[str, str, str, str, str]]:
    try:
        queues, _ = await site.glance.queues()
    except StoreError:
        return [(*entry, "") for entry in MENU]
    failed = sum(queue.counts.get(State.FAILED, 0) for queue in queues)
    return [(*entry, words.short_count(failed) if entry[0] == "failures" and failed else "") for entry in MENU]


def here_of(request: HTTPConnection) -> str:
    """Return the address of this page, for forms that come back to it."""
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")


def go_back(request: Request, back: str, note: Note) -> Response:
    """Return to the page from which something was done, which says what became of it."""
    root = root_of(request)
    inside = back.startswith(f"{root}/") and not back.startswith("//") and "\\" not in back and back.isprintable()
    made = RedirectResponse(back if inside else f"{root}/", 303)
    kept = urlsafe_b64encode(msgspec.json.encode(Note(note.text[:1000], note.level))).decode()
    made.set_cookie(NOTE, kept, max_age=60, path=root or "/", httponly=True, samesite="strict")
    return made


def _note(request: Request) -> Note | None:
    if request.headers.get("x-holdfast-part"):
        return None
    try:
        return msgspec.json.decode(urlsafe_b64decode(request.cookies[NOTE]), type=Note)
    except (KeyError, ValueError, msgspec.MsgspecError):
        return None


def theme_of(request: HTTPConnection) -> str:
    """Return the colours that this browser has chosen; empty for those of its system."""
    theme = request.cookies.get(THEME, "")
    return theme if theme in ("light", "dark") else ""


def keep_theme(request: Request, theme: str, back: str) -> Response:
    """Keep the colours that a browser has chosen."""
    root = root_of(request)
    inside = back.startswith(f"{root}/") and not back.startswith("//") and "\\" not in back and back.isprintable()
    made = RedirectResponse(back if inside else f"{root}/", 303)
    chosen = theme if theme in ("light", "dark") else ""
    made.set_cookie(THEME, chosen, max_age=YEAR if chosen else 0, path=root or "/", samesite="lax")
    return made


def job_name(job: JobRecord) -> str:
    """Return queue, id and run of a job as the value of a checkbox."""
    return msgspec.json.encode([job.queue, job.id, job.run]).decode()


def event_detail(event: Event) -> str:
    """Return what else an event tells: its cause, times, worker, error and actor."""
    parts = (
        event.cause,
        f"waited {words.duration(event.wait_ms)}" if event.wait_ms is not None else None,
        f"ran {words.duration(event.run_ms)}" if event.run_ms is not None else None,
        event.error_type,
        words.percent(event.progress) if event.progress is not None else None,
        event.message,
        f"by {getattr(event, 'actor', None)}" if getattr(event, "actor", None) else None,
    )
    return " · ".join(str(part) for part in parts if part)


FILTERS: Mapping[str, object] = {
    "count": words.count,
    "short_count": words.short_count,
    "rate": words.rate,
    "duration": words.duration,
    "size": words.size,
    "iso": words.iso,
    "clock": words.clock,
    "time_of_day": words.time_of_day,
    "percent": words.percent,
    "lines": words.lines,
    "per_time": words.per_time,
    "job_name": job_name,
    "event_detail": event_detail,
}


def equip() -> None:
    """Give templates the filters of these pages."""
    made = environment()
    made.filters.update(FILTERS)
    made.globals["theme_of"] = theme_of
