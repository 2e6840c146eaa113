"""The pages by which people log in and out."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ..address import root_of
from ..problem import Problem
from ..site import Site, site_of
from ..templates import page
from .body import form_of


async def show_login(request: Request) -> Response:
    """Show the form."""
    return _form(request, request.query_params.get("next", ""))


def _form(request: Request, after: str, error: str = "", status: int = 200) -> Response:
    callers = site_of(request).callers
    return page(
        request, "login.html", status, after=after, error=error,
        has_users=callers.users is not None, has_tokens=bool(callers.tokens),
    )  # fmt: skip


async def log_in(request: Request) -> Response:
    """Take a name and password, or a token; return to where the caller wanted to go."""
    site = site_of(request)
    form = await form_of(request)
    name, secret, after = (form.get(field, "") for field in ("name", "secret", "next"))
    address = request.client.host if request.client else "here"
    try:
        cookie = await site.callers.log_in(address, name.strip(), secret)
    except Problem as problem:
        answer = _form(request, after, problem.detail, problem.status)
        answer.headers.update(problem.headers)
        return answer
    if cookie is None:
        return _form(request, after, "That is not right: check what you typed.", 401)
    answer = RedirectResponse(_inside(request, after), 303)
    _set_cookie(site, request, answer, cookie, int(site.settings.session_seconds))
    return answer


async def log_out(request: Request) -> Response:
    """End the login, also for whoever may have got hold of its cookie."""
    site, identity = site_of(request), request.state.identity
    if identity is not None and identity.session is not None:
        site.callers.sessions.end(identity.session)
    answer = RedirectResponse(f"{root_of(request)}/login", 303)
    _set_cookie(site, request, answer, "", 0)
    return answer


def _set_cookie(site: Site, request: Request, answer: Response, value: str, seconds: int) -> None:
    answer.set_cookie(
        site.settings.cookie, value, max_age=seconds, path=root_of(request) or "/",
        secure=request.url.scheme == "https", httponly=True, samesite="lax",
    )  # fmt: skip


def _inside(request: Request, after: str) -> str:
    """Return where to go after the login: a path of this application, and never another site."""
    root = root_of(request)
    inside = after.startswith(f"{root}/") and not after.startswith(("//", "/\\")) and "\\" not in after
    return after if inside and after.isprintable() else f"{root}/"


ROUTES = [
    Route("/login", show_login, methods=["GET"]),
    Route("/login", log_in, methods=["POST"]),
    Route("/logout", log_out, methods=["POST"]),
]
