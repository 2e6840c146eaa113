"""Django itself: the tests of a site pass on both databases, and its workers run as `manage.py` starts them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from django_place import SITE, DjangoSite
from support import until

KINDS = ("sqlite", "postgres")
EXAMPLE = Path(__file__).parents[2] / "examples" / "django_shop"


@pytest.fixture(params=KINDS)
def site(request: pytest.FixtureRequest, tmp_path: Path) -> DjangoSite:
    """The site on a new database, migrated."""
    made = DjangoSite(request.param, tmp_path)
    made.manage("migrate", "--verbosity", "0")
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_the_tests_of_the_site_pass(kind: str, tmp_path: Path) -> None:
    assert " passed" in DjangoSite(kind, tmp_path).run("-m", "pytest", str(SITE))


def test_the_tests_of_the_site_pass_with_the_test_runner_of_django(tmp_path: Path) -> None:
    told = DjangoSite("sqlite", tmp_path).manage("test", "test_transaction", "test_admin", "--parallel", "2")
    assert "OK" in told


def test_the_example_passes_its_own_tests_and_runs(tmp_path: Path) -> None:
    shop = DjangoSite("sqlite", tmp_path, folder_of_code=EXAMPLE)
    shop.environment |= {"DJANGO_SETTINGS_MODULE": "shop.settings", "SHOP_FILE": str(tmp_path / "shop.db")}
    assert "OK" in shop.run("-W", "error", "manage.py", "test")
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", ".", "orders/tests.py")
    assert "6 passed" in shop.run(*words)
    shop.manage("migrate", "--verbosity", "0")
    shop.program("from django.test import Client\nClient().post('/orders', {'item': 'lamp', 'to': 'ann@example.com'})")
    assert "1 completed" in shop.manage("holdfast", "worker", "--burst")
    assert "order 1 confirmed to ann@example.com" in shop.manage("holdfast", "jobs", "show", "mail", "order-1")


def test_workers_run_what_views_enqueued(site: DjangoSite) -> None:
    site.program(
        "from django.test import Client\n"
        "client = Client()\n"
        "client.post('/post', {'text': 'kept'})\n"
        "client.post('/post', {'text': 'undone', 'fail': '1'})\n"
        "client.post('/post-at-once', {'text': 'at once'})\n"
        "client.post('/post-far', {'text': 'far'})\n"
        "client.post('/post-far', {'text': 'undone', 'fail': '1'})\n"
    )
    assert "2 completed" in site.manage("holdfast", "worker", "--burst")
    assert "1 completed" in site.manage("holdfast", "--alias", "far", "worker", "--burst")
    assert site.notes() == "['at once', 'job of kept', 'kept']"


@pytest.mark.parametrize("task", ["lose_connection", "alose_connection"])
def test_a_lost_connection_harms_no_later_job(task: str, tmp_path: Path) -> None:
    """One thread runs all of them: a connection that stayed lost would fail every job after it."""
    site = DjangoSite("postgres", tmp_path)
    site.manage("migrate", "--verbosity", "0")
    follower = "awrite" if task.startswith("a") else "write"
    site.enqueue(f"{task}()", f"{follower}('one')", f"{task}()", f"{follower}('two')")
    told = site.manage("holdfast", "worker", "--burst", "--slots", "1", "--log-level", "error")
    assert "2 completed" in told
    assert "2 failed" in told


def test_processes_are_set_up_before_they_import_tasks(site: DjangoSite) -> None:
    site.enqueue("write_in_process('a')", "write('b')")
    site.manage("holdfast", "worker", "--burst", "--processes", "2", "--pool", "1")
    assert site.notes() == "['a', 'b']"


def test_every_command_knows_the_app_of_the_settings(tmp_path: Path) -> None:
    site = DjangoSite("sqlite", tmp_path)
    site.manage("migrate", "--verbosity", "0")
    assert "queued" in site.manage("holdfast", "--alias=mail", "enqueue", "send", "to=ann")
    hint = "manage.py holdfast --alias mail worker --queues"
    assert hint in site.manage("holdfast", "--alias=mail", "doctor", code=1)
    assert "default" in site.manage("holdfast", "--settings=site_settings", "worker", "--burst")
    assert "Usage: manage.py holdfast" in site.manage("holdfast", "--help")
    assert "HOLDFAST has no alias 'nobody'" in site.manage("holdfast", "--alias", "nobody", "tasks", code=2)
    assert "--alias needs a value" in site.manage("holdfast", "--alias", code=2)
    assert "no command 'jobz'; did you mean 'jobs'?" in site.manage("holdfast", "jobz", code=2)
    called = "from django.core.management import call_command\ncall_command('holdfast', 'queues', '--json')"
    assert "queues" in site.program(called)


def test_an_app_by_import_path_needs_no_manage_py(tmp_path: Path) -> None:
    site = DjangoSite("sqlite", tmp_path)
    site.manage("migrate", "--verbosity", "0")
    words = ("-m", "holdfast", "enqueue", "--app", "holdfast.contrib.django.project:mail", "send", "to=ann")
    assert "queued" in site.run(*words)
    site.environment["DJANGO_SETTINGS_MODULE"] = ""
    told = site.run(*words, code=2)
    assert "set DJANGO_SETTINGS_MODULE, or use manage.py holdfast" in told


def test_a_worker_is_stopped_by_a_signal(site: DjangoSite) -> None:
    command = [site.python, "manage.py", "holdfast", "worker", "--json"]
    worker = subprocess.Popen(command, cwd=SITE, env=site.environment, stdout=subprocess.PIPE, text=True)
    try:
        assert worker.stdout is not None
        assert json.loads(worker.stdout.readline())["event"] == "started"
        site.enqueue("write('live')")
        until(lambda: "live" in site.notes(), "the job has run")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
    finally:
        worker.kill()
        worker.communicate()


def test_a_worker_starts_again_when_code_of_the_project_changes(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    shutil.copytree(EXAMPLE, folder)
    shop = DjangoSite("sqlite", tmp_path, folder_of_code=folder)
    shop.environment |= {"DJANGO_SETTINGS_MODULE": "shop.settings", "SHOP_FILE": str(tmp_path / "shop.db")}
    shop.manage("migrate", "--verbosity", "0")
    command = [shop.python, "manage.py", "holdfast", "worker", "--reload", "--json"]
    worker = subprocess.Popen(command, cwd=folder, env=shop.environment, stdout=subprocess.PIPE, text=True)
    try:
        assert worker.stdout is not None
        assert json.loads(worker.stdout.readline())["event"] == "started"
        code = folder / "orders" / "tasks.py"
        code.write_text(code.read_text().replace("confirmed to", "CONFIRMED to"))
        events = (json.loads(line)["event"] for line in worker.stdout if line.startswith("{"))
        assert [next(events), next(events)] == ["stopped", "started"]
        shop.program("from django.test import Client\nClient().post('/orders', {'item': 'lamp', 'to': 'a@b.org'})")
        shown = ("holdfast", "jobs", "show", "mail", "order-1")
        until(lambda: "CONFIRMED to a@b.org" in shop.manage(*shown), "the new code has run")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
    finally:
        worker.kill()
        worker.communicate()


def test_without_settings_a_project_is_told_what_to_write(tmp_path: Path) -> None:
    site = DjangoSite("sqlite", tmp_path)
    (tmp_path / "bare_settings.py").write_text("from site_settings import *\ndel HOLDFAST\n")
    site.environment |= {"DJANGO_SETTINGS_MODULE": "bare_settings", "PYTHONPATH": f"{tmp_path}{os.pathsep}{SITE}"}
    told = site.manage("check", code=1)
    assert 'there is no setting HOLDFAST: write HOLDFAST = {"default": {"DATABASE": "default"}}' in told
    assert "holdfast.E001" in told


def test_jobs_before_migrate_are_refused_with_the_command_to_run(site: DjangoSite) -> None:
    site.manage("migrate", "holdfast", "zero", "--verbosity", "0")
    told = site.program(
        "from django.db import transaction\nfrom notes.tasks import write\n"
        "from holdfast import ConfigError\nfrom holdfast.contrib.django import get_app\n"
        "try:\n    with transaction.atomic():\n        get_app().sync(write.enqueue('a'))\n"
        "except ConfigError as error:\n    print(error)\n"
    )
    assert "manage.py migrate" in told
