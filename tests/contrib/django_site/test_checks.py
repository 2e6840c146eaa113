"""What `manage.py check` says of wrong settings, with hints."""

from typing import Any

import pytest
from django.conf import settings
from django.core import checks
from django.core.management import call_command
from django.db import connections
from django.test import override_settings
from notes.tasks import write

from holdfast import ConfigError
from holdfast.contrib.django import get_app
from holdfast.contrib.django.checks import check_schemas, check_search_paths, check_settings
from holdfast.contrib.django.schema import schemas_in


def found(**holdfast: Any) -> list[tuple[str | None, str]]:
    with override_settings(HOLDFAST=holdfast or None):
        return [(message.id, message.msg) for message in check_settings()]


def test_the_settings_of_this_site_are_right() -> None:
    assert [message for message in checks.run_checks() if message.id.startswith("holdfast")] == []


@pytest.mark.parametrize(
    ("holdfast", "id", "words"),
    [
        ({}, "holdfast.E001", "there is no setting HOLDFAST: write HOLDFAST = {"),
        ({"URL": "redis://x"}, "holdfast.E001", "HOLDFAST['URL'] stands outside of an alias"),
        ({"default": "redis://x"}, "holdfast.E003", "a dictionary was expected"),
        ({"default": {}}, "holdfast.E003", "needs either 'URL' or 'DATABASE', and not both"),
        ({"default": {"URL": "redis://x", "DATABASE": "default"}}, "holdfast.E003", "and not both"),
        ({"default": {"Url": "redis://x"}}, "holdfast.E003", "'Url' is no key of it; known are URL, DATABASE"),
        ({"default": {"URL": "redis://x", "NAMESPACE": "a"}}, "holdfast.E003", "'NAMESPACE' goes with 'DATABASE'"),
        ({"default": {"DATABASE": "default", "ON_COMMIT": True}}, "holdfast.E003", "'ON_COMMIT' goes with 'URL'"),
        ({"default": {"URL": "redis://x", "ON_COMMIT": 3}}, "holdfast.E003", "True, False, or the alias of a database"),
        ({"default": {"DATABASE": "default", "NAMESPACE": "1 2"}}, "holdfast.E003", "a letter or _"),
        ({"default": {"DATABASE": "default", "OPTIONS": []}}, "holdfast.E003", "a dictionary was expected"),
        ({"default": {"DATABASE": "elsewhere"}}, "holdfast.E004", "DATABASES has no such alias"),
        ({"default": {"URL": "nothing://x"}}, "holdfast.E004", "there is no store for nothing://"),
        ({"default": {"DATABASE": "default", "OPTIONS": {"timeot": 3}}}, "holdfast.E004", "'timeot' is no option"),
        ({"other": {"DATABASE": "default"}}, "holdfast.W002", "HOLDFAST has no alias 'default'"),
        ({"default": {"URL": "redis://x", "ON_COMMIT": False}}, "holdfast.W005", "even after a rollback"),
        ({"default": {"URL": "memory://"}}, "holdfast.W006", "no worker sees its jobs"),
        (
            {"default": {"DATABASE": "default"}, "two": {"DATABASE": "default"}},
            "holdfast.E008",
            "HOLDFAST['default'] and HOLDFAST['two'] are the same store",
        ),
        (
            {"default": {"URL": "redis://x/0"}, "two": {"URL": "redis://x:6379"}},
            "holdfast.E008",
            "are the same store: workers of one would take the jobs of the other",
        ),
    ],
)
def test_a_wrong_setting_is_named(holdfast: dict[str, Any], id: str, words: str) -> None:
    ((found_id, message),) = found(**holdfast)
    assert found_id == id
    assert words in message


@override_settings(HOLDFAST=None)
def test_without_settings_a_use_says_what_to_write() -> None:
    with pytest.raises(ConfigError, match="there is no setting HOLDFAST: write HOLDFAST = "):
        get_app().sync(write.enqueue("a"))


def test_an_unknown_alias_is_named() -> None:
    with pytest.raises(ConfigError, match="HOLDFAST has no alias 'nobody'; it has default, mail, far"):
        get_app("nobody").sync(get_app("nobody").jobs())


def test_a_sqlite_database_that_locks_late_is_warned_of() -> None:
    if settings.ON_POSTGRES:
        assert found(default={"DATABASE": "default"}) == []
        return
    options = connections.settings["default"]["OPTIONS"]
    mode = options.pop("transaction_mode")
    try:
        ((id, message),) = found(default={"DATABASE": "default"})
    finally:
        options["transaction_mode"] = mode
    assert id == "holdfast.W007"
    assert "database is locked" in message


@pytest.mark.django_db(transaction=True)
def test_a_schema_that_is_missing_is_named_and_migrate_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(check_schemas(databases=["default"])) == []
    call_command("migrate", "holdfast", "zero", verbosity=0)
    messages = list(check_schemas(databases=["default"]))
    assert [message.id for message in messages] == ["holdfast.W010"] * 2
    assert "the schema 'jobs' is missing in the database 'default'" in messages[0].msg
    assert messages[0].hint == "Run manage.py migrate --database default."
    monkeypatch.setattr("sys.argv", ["manage.py", "migrate"])
    assert list(check_schemas(databases=["default"])) == []
    call_command("migrate", verbosity=0)
    assert list(check_schemas(databases=["default"])) == []


@pytest.mark.django_db(transaction=True)
def test_a_schema_that_would_take_the_tables_of_the_project_is_refused() -> None:
    """PostgreSQL makes tables in the schema that is named like the role: so does `migrate`, once ours is there."""
    with connections["default"].cursor() as cursor:
        if not settings.ON_POSTGRES:
            assert list(check_search_paths(databases=["default"])) == []
            return
        cursor.execute("SELECT current_user")
        (role,) = cursor.fetchone()
        with override_settings(HOLDFAST={"default": {"DATABASE": "default", "NAMESPACE": role}}):
            (error,) = check_search_paths(databases=["default"])
            assert (error.id, error.hint) == (
                "holdfast.E013",
                'Give this alias another name: "NAMESPACE": "jobs".',
            )
            cursor.execute(f'CREATE SCHEMA "{role}"')
            (warning,) = check_search_paths(databases=["default"])
            cursor.execute(f'DROP SCHEMA "{role}"')
            assert warning.id == "holdfast.W014"
            assert "PostgreSQL would make new tables of your project in that schema" in warning.msg
        assert list(check_search_paths(databases=["default"])) == []


@pytest.mark.django_db(transaction=True)
def test_migrate_brings_an_older_schema_up() -> None:
    with connections["default"].cursor() as cursor:
        if settings.ON_POSTGRES:
            cursor.execute("UPDATE jobs.meta SET value = '0 older' WHERE name = 'functions'")
        else:
            cursor.execute("DROP TABLE mail_meta")
            for name in ("job", "event"):
                cursor.execute(f"DROP TABLE mail_{name}")
            schema = next(each for each in schemas_in("default") if not each.is_current())
            schema.drop()
    assert len(list(check_schemas(databases=["default"]))) == 1
    call_command("migrate", verbosity=0)
    assert list(check_schemas(databases=["default"])) == []


@pytest.mark.django_db
def test_no_migration_is_missing() -> None:
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)


@pytest.mark.django_db(transaction=True)
def test_tables_of_others_are_not_dropped() -> None:
    table = "jobs.precious" if settings.ON_POSTGRES else "jobs_precious"
    with connections["default"].cursor() as cursor:
        cursor.execute(f"CREATE TABLE {table} (id int)")
        if settings.ON_POSTGRES:
            with pytest.raises(ConfigError, match=r"the schema 'jobs' has tables that are not Holdfast's \(precious\)"):
                schemas_in("default")[0].drop()
        else:
            schemas_in("default")[0].drop()
        cursor.execute(f"SELECT count(*) FROM {table}")
        cursor.execute(f"DROP TABLE {table}")
    call_command("migrate", verbosity=0)
