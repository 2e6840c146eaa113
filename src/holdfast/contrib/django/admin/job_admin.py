"""The admin: jobs of every alias, read-only, with actions for those who may.

Jobs are in no table of Django's, and on Redis in no table at all. So the list is no `ChangeList` over a queryset, but a
page of its own that reads by the contract of stores and pages by its cursors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse

from ....app.app import Holdfast
from ....core.bound import MOST_NAME_BYTES
from ....errors import ConfigError, HoldfastError, JobMissing
from ..aliases import get_app
from ..configuration import aliases
from ..models import AdminJob
from .job_list import FIELDS, AdminJobDetail, AdminJobList, ListedFilter, job_detail, job_list, key_of, named

Act = Callable[[Holdfast, str, str], Awaitable[bool]]
LIST, JOB = "holdfast_adminjob_changelist", "holdfast_adminjob_job"


async def _requeue(app: Holdfast, queue: str, id: str) -> bool:
    return bool(await app.requeue(id, queue=queue))


async def _cancel(app: Holdfast, queue: str, id: str) -> bool:
    return bool(await app.cancel(queue, id))


async def _delete(app: Holdfast, queue: str, id: str) -> bool:
    return bool(await app.queue(queue).delete(id))


ACTIONS: dict[str, tuple[Act, str]] = {
    "requeue": (_requeue, "only finished jobs are requeued"),
    "cancel": (_cancel, "a job that runs, or is over, is not cancelled"),
    "delete": (_delete, "they were gone already"),
}
"""What may be done with jobs, and why it may not have been. Each needs the permission of its name: `requeue_job`."""


@admin.register(AdminJob)
class JobAdmin(admin.ModelAdmin):
    """Lists jobs, shows one, and requeues, cancels or deletes."""

    def get_urls(self) -> list[Any]:
        """Return the list and the page of one job, and no form to change anything."""
        wrap = self.admin_site.admin_view
        return [path("", wrap(self.changelist_view), name=LIST), path("job/", wrap(self.job_view), name=JOB)]

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return bool(request.user.has_perm("holdfast.view_job"))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def allowed(self, request: HttpRequest) -> list[str]:
        """Return the actions that the user may take."""
        return [name for name in ACTIONS if request.user.has_perm(f"holdfast.{name}_job")]

    # --- pages

    def changelist_view(self, request: HttpRequest, extra_context: object = None) -> HttpResponse:
        """Show a page of the list; a form of it acts on the jobs that are chosen."""
        app = self._app(request)
        if request.method == "POST":
            self._act(request, app)
            return HttpResponseRedirect(self._list(request.GET.dict()))
        wanted = ListedFilter.of(request.GET)
        found: AdminJobList | None = None
        try:
            found = app.sync(job_list(app, wanted))
        except HoldfastError as error:  # a store that is away, or a cursor that is none
            self.message_user(request, str(error), messages.ERROR)
        context = {"found": found, "wanted": wanted, "fields": FIELDS[2:], "aliases": aliases()}
        return self._page(request, "job_list", "Jobs", **context)

    def job_view(self, request: HttpRequest) -> HttpResponse:
        """Show one job; a form of it acts on it."""
        app = self._app(request)
        queue, id, run = (request.GET.get(name, "") for name in ("queue", "id", "run"))
        if request.method == "POST":
            self._act(request, app)
            return HttpResponseRedirect(request.get_full_path())
        try:
            found: AdminJobDetail = app.sync(job_detail(app, queue, id, int(run) if run.isdecimal() else None))
        except (JobMissing, ConfigError) as error:  # there is none, or the address cannot be a job's
            raise Http404(str(error)) from error
        except HoldfastError:  # a store that is away: the list says so
            return HttpResponseRedirect(self._list({"alias": request.GET.get("alias", "default")}))
        sees = request.user.has_perm("holdfast.view_payload")
        return self._page(request, "job_detail", id, found=found, sees_payload=sees, key=key_of(queue, id))

    def _list(self, words: Mapping[str, str]) -> str:
        """Return the address of the list with these filters."""
        return f"{reverse(f'{self.admin_site.name}:{LIST}')}?{urlencode(words)}"

    def _page(self, request: HttpRequest, template: str, title: str, **context: object) -> HttpResponse:
        whole = {
            **self.admin_site.each_context(request), "title": title, "opts": self.opts,
            "actions": self.allowed(request), "list_url": f"{self.admin_site.name}:{LIST}",
            "job_url": f"{self.admin_site.name}:{JOB}", "alias": request.GET.get("alias", "default"), **context,
        }  # fmt: skip
        return TemplateResponse(request, f"admin/holdfast/{template}.html", whole)

    def _app(self, request: HttpRequest) -> Holdfast:
        if not self.has_view_permission(request):
            raise PermissionDenied
        alias = request.GET.get("alias") or "default"
        if alias not in aliases():
            raise Http404(f"HOLDFAST has no alias {alias!r}")
        return get_app(alias)

    # --- acting

    def _act(self, request: HttpRequest, app: Holdfast) -> None:
        """Do what the form says with the jobs that it names, by the name of the user, and say how many it was."""
        action, keys = request.POST.get("action", ""), request.POST.getlist("job")
        if action not in ACTIONS:
            self.message_user(request, "Choose an action.", messages.WARNING)
            return
        if action not in self.allowed(request):
            raise PermissionDenied
        act, otherwise = ACTIONS[action]
        actor = f"django:{request.user.get_username()}".encode()[:MOST_NAME_BYTES].decode(errors="ignore")
        try:
            jobs = [named(key) for key in keys]
            with app.acting_as(actor):
                done = sum(app.sync(act(app, queue, id)) for queue, id in jobs)
        except (HoldfastError, ValueError) as error:  # a store that is away, or a form that is not of this page
            self.message_user(request, f"{action}: {error}", messages.ERROR)
            return
        left = len(keys) - done
        told = f"{action}: {done} of {len(keys)} jobs" + (f"; {otherwise}" if left else "")
        self.message_user(request, told, messages.WARNING if left else messages.SUCCESS)
