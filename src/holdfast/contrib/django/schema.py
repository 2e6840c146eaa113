"""The schema of Holdfast in databases of Django's: made, brought up to date and dropped through Django's connection."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from django.apps import AppConfig
from django.db import connections, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.utils import ProgrammingError

from ...errors import ConfigError
from ...store.sqlite.connection import schema as sqlite_schema
from ...store.sqlite.url import SqliteAddress
from .configuration import AliasSettings, alias_settings, aliases
from .database_url import vendor_of
from .test_mode import in_tests

LABEL, FIRST = "holdfast", "0001_initial"
CHANGED_REPLY = "42P13"
"""What PostgreSQL says of a function that is to give something else than it did."""


class Schema(Protocol):
    """The schema of one namespace in one database, through Django's connection."""

    def is_current(self) -> bool:
        """Return whether this Holdfast would change nothing."""

    def bring_up(self) -> None:
        """Make the schema, or bring it up to date."""

    def drop(self) -> None:
        """Drop everything that `bring_up` made."""

    def clear(self) -> None:
        """Delete every job, and all that goes with them."""


def schemas_in(database: str) -> list[Schema]:
    """Return the schemas of all aliases whose jobs are in a database of Django's."""
    try:
        known = [alias_settings(alias) for alias in aliases()]
    except ConfigError:
        return []  # which `manage.py check` shows
    return [schema_of(each) for each in known if each.database == database]


def schema_of(known: AliasSettings) -> Schema:
    """Return the schema of an alias."""
    assert known.database is not None
    wrapper = connections[known.database]
    if vendor_of(known) == "sqlite":
        return SqliteSchema(wrapper, known.namespace)
    return PostgresSchema(wrapper, known.namespace)


def takes_tables_of_others(known: AliasSettings) -> Literal["", "already", "from now on"]:
    """Return whether PostgreSQL makes tables without a schema in that of an alias, or will once it is there.

    By default it makes them in the schema that is named like the role, where there is one, and else in `public`.
    """
    with connections[known.database or ""].cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('search_path'), current_user, to_regnamespace(%s) IS NOT NULL",
            (f'"{known.namespace}"',),
        )
        path, role, there = cursor.fetchone()
    names = [role if (name := each.strip().strip('"')) == "$user" else name for each in path.split(",")]
    before_public = names[: names.index("public")] if "public" in names else names
    if known.namespace not in before_public:
        return ""
    return "already" if there else "from now on"


def after_migrate(sender: AppConfig, using: str, **sent: Any) -> None:
    """Bring the schema up after each `migrate`, where its migration is applied; empty it when a test ends by a flush.

    A flush sends the same signal, without a plan. It leaves tables alone that are not a model's.
    """
    if "plan" not in sent:
        if in_tests():
            for schema in schemas_in(using):
                schema.clear()
    elif is_applied(using):
        for schema in schemas_in(using):
            if not schema.is_current():
                schema.bring_up()


def is_applied(using: str) -> bool:
    """Return whether the migration is applied, or the project has switched migrations off (`--nomigrations`)."""
    connection = connections[using]
    if MigrationLoader.migrations_module(LABEL)[0] is None:
        return True
    return (LABEL, FIRST) in MigrationRecorder(connection).applied_migrations()


class SqliteSchema:
    """Tables with a prefix, in a SQLite database."""

    def __init__(self, wrapper: Any, namespace: str) -> None:
        self._wrapper = wrapper
        self._namespace = namespace
        self._address = SqliteAddress(path=str(wrapper.settings_dict["NAME"]), namespace=namespace)

    def _connection(self) -> Any:
        self._wrapper.ensure_connection()
        return self._wrapper.connection

    def is_current(self) -> bool:
        return sqlite_schema.schema_version(self._connection(), self._address) == sqlite_schema.newest()

    def bring_up(self) -> None:
        with transaction.atomic(using=self._wrapper.alias):
            sqlite_schema.bring_up(self._connection(), self._address)

    def drop(self) -> None:
        self._each("DROP TABLE IF EXISTS", sqlite_schema.tables(self._namespace))

    def clear(self) -> None:
        if self.is_current():
            kept = f"{self._namespace}_meta"
            self._each("DELETE FROM", [name for name in sqlite_schema.tables(self._namespace) if name != kept])

    def _each(self, verb: str, tables: list[str]) -> None:
        with transaction.atomic(using=self._wrapper.alias):
            for name in tables:
                self._connection().execute(f'{verb} "{name}"')


class PostgresSchema:
    """A schema of a PostgreSQL database."""

    def __init__(self, wrapper: Any, name: str) -> None:
        self._wrapper = wrapper
        self._name = name

    def is_current(self) -> bool:
        return bool(self._state().current)

    def bring_up(self) -> None:
        from ...store.postgres import migration, sql

        with transaction.atomic(using=self._wrapper.alias):
            self._run("SELECT pg_advisory_xact_lock(hashtextextended(%s, 7))", (f"holdfast {self._name}",))
            script = migration.script(self._name, self._state().tables)
            try:
                with transaction.atomic(using=self._wrapper.alias):
                    self._run(script)
            except ProgrammingError as error:
                if getattr(error.__cause__, "sqlstate", None) != CHANGED_REPLY:
                    raise
                self._run(sql.rename(sql.text("drop_functions.sql"), self._name))
                self._run(script)

    def drop(self) -> None:
        from ...store.postgres import migration

        there = [row[0] for row in self._run("SELECT tablename FROM pg_tables WHERE schemaname = %s", (self._name,))]
        if others := sorted(set(there) - set(migration.tables())):
            raise ConfigError(
                f"the schema {self._name!r} has tables that are not Holdfast's ({', '.join(others[:3])}): drop "
                "Holdfast's by hand, or move the others"
            )
        self._run(f'DROP SCHEMA IF EXISTS "{self._name}" CASCADE')

    def clear(self) -> None:
        from ...store.postgres import migration

        if self._state().tables:
            names = [name for name in migration.tables() if name not in ("meta", "pulse")]
            self._run(";".join(f'DELETE FROM "{self._name}".{name}' for name in names))

    def _state(self) -> Any:
        from ...store.postgres.migration import SchemaState

        if not self._run("SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'meta'", (self._name,)):
            return SchemaState()
        values = dict(self._run(f"SELECT name, value FROM \"{self._name}\".meta WHERE name IN ('schema', 'functions')"))
        return SchemaState.of(values)

    def _run(self, statement: str, values: tuple[object, ...] | None = None) -> list[Any]:
        with self._wrapper.cursor() as cursor:
            cursor.execute(statement, values)
            return list(cursor.fetchall()) if cursor.description else []
