"""The admin of jobs: who may see what, filters, links and actions, on a database and on a store elsewhere."""

import re
from html import unescape
from typing import Any
from unittest.mock import patch

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client, TestCase, TransactionTestCase
from notes.tasks import fail, ping, write

from holdfast.contrib.django import get_app
from holdfast.contrib.django.testing import JobsMixin, run_jobs
from holdfast.errors import StoreBusy

LIST, JOB = "/admin/holdfast/adminjob/", "/admin/holdfast/adminjob/job/"
pytestmark = pytest.mark.django_db


def client_of(*permissions: str) -> Client:
    """Return the browser of somebody of the staff with these permissions."""
    user = User.objects.create_user("ann", is_staff=True)
    for name in permissions:
        user.user_permissions.add(Permission.objects.get(content_type__app_label="holdfast", codename=name))
    client = Client()
    client.force_login(user)
    return client


def page(client: Client, path: str, **words: str) -> str:
    answer = client.get(path, words)
    assert answer.status_code == 200, answer.status_code
    return unescape(answer.content.decode())


def act(client: Client, action: str, *jobs: tuple[str, str], alias: str = "default") -> str:
    keys = [f'["{queue}","{id}"]' for queue, id in jobs]
    answer = client.post(f"{LIST}?alias={alias}", {"action": action, "job": keys}, follow=True)
    assert answer.status_code == 200, answer.status_code
    return unescape(answer.content.decode())


class AdminTests(JobsMixin, TestCase):
    """Jobs in the database of the site."""

    alias, task = "default", write

    def enqueue(self, text: str, **options: Any) -> Any:
        with self.captureOnCommitCallbacks(execute=True):
            return get_app(self.alias).sync(self.task.options(**options).enqueue(text))

    def states(self) -> list[str]:
        app = get_app(self.alias)
        return sorted(job.state.value for job in app.sync(app.jobs()).jobs)

    def test_nobody_sees_jobs_without_the_permission(self) -> None:
        client = client_of()
        assert client.get(LIST).status_code == 403
        assert client.get(JOB, {"queue": "default", "id": "x"}).status_code == 403
        assert Client().get(LIST).status_code == 302

    def test_the_list_has_links_and_filters(self) -> None:
        one, two = self.enqueue("a", tags=["red"]), self.enqueue("b", delay=600)
        client = client_of("view_job")
        whole = page(client, LIST, alias=self.alias)
        assert one.id in whole
        assert two.id in whole
        assert "<button" not in whole.partition('id="changelist-form"')[2].partition("</form>")[0]
        for words, there, gone in (
            ({"state": "scheduled"}, two, one), ({"tag": "red"}, one, two), ({"id": one.id}, one, two),
        ):  # fmt: skip
            some = page(client, LIST, alias=self.alias, **words)
            assert there.id in some
            assert gone.id not in some
        assert "No jobs" in page(client, LIST, alias=self.alias, queue="empty")
        link = re.findall(rf'href="({JOB}[^"]*{one.id}[^"]*)"', whole)[0]
        assert "enqueue" in page(client, link)

    def test_a_payload_is_shown_to_those_who_may_see_it(self) -> None:
        handle = self.enqueue("a secret")
        where = {"alias": self.alias, "queue": "default", "id": handle.id}
        client = client_of("view_job")
        assert "a secret" not in page(client, JOB, **where)
        User.objects.all().delete()
        assert "a secret" in page(client_of("view_job", "view_payload"), JOB, **where)

    def test_an_action_needs_its_permission(self) -> None:
        handle = self.enqueue("a")
        client = client_of("view_job", "cancel_job")
        answer = client.post(LIST, {"action": "delete", "job": [f'["default","{handle.id}"]']})
        assert answer.status_code == 403
        assert self.states() == ["waiting"]

    def test_jobs_are_cancelled_requeued_and_deleted(self) -> None:
        handle = self.enqueue("a")
        client = client_of("view_job", "cancel_job", "requeue_job", "delete_job")
        assert "Cancel: 1 of 1 jobs" in act(client, "cancel", ("default", handle.id), alias=self.alias)
        assert self.states() == ["cancelled"]
        again = act(client, "cancel", ("default", handle.id), alias=self.alias)
        assert "Cancel: 0 of 1 jobs; a job that runs, or is over, is not cancelled" in again
        other = self.enqueue("b")
        run_jobs(self.alias)
        assert "Requeue: 1 of 1 jobs" in act(client, "requeue", ("default", other.id), alias=self.alias)
        assert "waiting" in self.states()
        assert "Delete: 1 of 1 jobs" in act(client, "delete", ("default", other.id), alias=self.alias)
        assert "Choose an action." in act(client, "", ("default", other.id), alias=self.alias)

    def test_what_is_not_there_is_not_found(self) -> None:
        client = client_of("view_job")
        assert client.get(JOB, {"queue": "default", "id": "nobody", "alias": self.alias}).status_code == 404
        assert client.get(LIST, {"alias": "nobody"}).status_code == 404

    def test_a_form_or_an_address_that_no_page_gave_is_no_error_of_the_server(self) -> None:
        client = client_of("view_job", "delete_job")
        answer = client.post(f"{LIST}?alias={self.alias}", {"action": "delete", "job": "nonsense"}, follow=True)
        assert "Delete: JSON is malformed" in unescape(answer.content.decode())
        assert client.get(JOB, {"queue": "a\0", "id": "\0", "alias": self.alias}).status_code == 404

    def test_a_store_that_is_away_is_told(self) -> None:
        client = client_of("view_job", "delete_job")
        away = StoreBusy("nobody answers")
        app = get_app(self.alias)
        with (
            patch.object(app, "queue", side_effect=away), patch.object(app, "jobs", side_effect=away),
            patch.object(app, "status", side_effect=away),
        ):  # fmt: skip
            assert "Delete: nobody answers" in act(client, "delete", ("default", "x"), alias=self.alias)
            answer = client.get(JOB, {"queue": "default", "id": "x", "alias": self.alias}, follow=True)
            assert (answer.status_code, "nobody answers" in answer.content.decode().lower()) == (200, True)

    def test_a_wrong_cursor_is_told(self) -> None:
        assert "Cursor 'what' is not one that a list of jobs gave" in page(
            client_of("view_job"), LIST, alias=self.alias, cursor="what"
        )

    def test_there_is_no_form_that_changes_a_job(self) -> None:
        client = client_of("view_job")
        assert client.get(f"{LIST}add/").status_code == 404
        assert LIST in page(client, "/admin/")


class FarAdminTests(AdminTests):
    """Jobs in a store elsewhere, such as Redis."""

    alias, task = "far", ping


class CommittedAdminTests(JobsMixin, TransactionTestCase):
    """What only the event log knows, which has what is committed."""

    def test_a_failed_job_shows_its_error_and_who_requeued_it(self) -> None:
        handle = get_app().sync(fail.enqueue("broken"))
        run_jobs()
        client = client_of("view_job", "requeue_job")
        shown = page(client, JOB, queue="default", id=handle.id)
        assert "ValueError: broken" in shown
        assert "Traceback" in shown
        act(client, "requeue", ("default", handle.id))
        assert "django:ann" in page(client, JOB, queue="default", id=handle.id)
