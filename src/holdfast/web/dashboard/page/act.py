"""The forms of the pages: one action, then back to the page with a note of what became of it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from ....errors import ConfigError, HoldfastError, StoreError
from ...auth.body import form_of
from ...problem import Problem
from ...site import site_of
from ..actions import ACTIONS
from ..shell import Note, go_back, keep_theme


async def act(request: Request) -> Response:
    """Do what a form says."""
    site, name = site_of(request), request.path_params["action"]
    action = ACTIONS.get(name)
    if action is None:
        raise Problem(404, "not-found", f"there is no action {name!r}")
    fields = await form_of(request)
    try:
        note = await action(site.app, fields)
    except KeyError as missing:
        raise Problem(400, "bad-request", f"the form lacks {missing}: load the page again") from None
    except StoreError:
        raise
    except (ConfigError, HoldfastError) as error:
        note = Note(str(error), "bad")
    site.glance.forget()
    return go_back(request, fields.get("back", ""), note)


async def theme(request: Request) -> Response:
    """Keep the colours that this browser wants: nothing else changes, so that viewers may do it, too."""
    given = request.query_params
    return keep_theme(request, given.get("to", ""), given.get("back", ""))
