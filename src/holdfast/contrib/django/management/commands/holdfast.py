"""`manage.py holdfast ...`: every command of `holdfast`, with the app that the settings name."""

from __future__ import annotations

import os
import sys
from argparse import REMAINDER, ArgumentParser
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from holdfast.contrib.django.configuration import DEFAULT
from holdfast.contrib.django.test_mode import in_tests
from holdfast.executor.call import SETUP

APP = "HOLDFAST_APP"


OWN = ("--alias", "--settings", "--pythonpath")
"""Options that stand before the command of Holdfast; Django has read its own two already."""


def split_alias(words: list[str]) -> tuple[str, list[str]]:
    """Return the alias and the words of Holdfast's own command."""
    alias, rest = DEFAULT, list(words)
    while rest and rest[0].partition("=")[0] in OWN:
        name, equals, value = rest.pop(0).partition("=")
        if not equals:
            if not rest:
                raise CommandError(f"{name} needs a value: {name}={DEFAULT if name == '--alias' else 'NAME'}")
            value = rest.pop(0)
        alias = value if name == "--alias" else alias
    return alias, rest


class ManageHoldfast(BaseCommand):
    """Passes its words on to Holdfast's own command line."""

    help = "Run a command of Holdfast with the app of this project: worker, jobs, queues, ... (--help lists them)."
    requires_system_checks: list[str] = []

    def run_from_argv(self, argv: list[str]) -> None:
        """Run a command as it was typed; Django's own options stand before it, --alias too."""
        try:
            alias, words = split_alias(argv[2:])
        except CommandError as error:
            self.stderr.write(f"{argv[1]}: {error}")
            sys.exit(2)
        try:
            self._run(alias, words, f"{os.path.basename(argv[0])} {argv[1]}")
        finally:
            from holdfast.cli.worker.exit import end_soon

            end_soon()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the words for `call_command`."""
        parser.add_argument("--alias", default=DEFAULT, help="The alias of HOLDFAST.")
        parser.add_argument("words", nargs=REMAINDER)

    def handle(self, *args: Any, words: list[str], alias: str = DEFAULT, **options: Any) -> None:
        """Run a command for `call_command`; raise `CommandError` where it ends with another code than 0."""
        code = (self._run_in_test if in_tests() else self._code)(alias, list(words))
        if code:
            raise CommandError(f"holdfast {' '.join(words)} ended with exit code {code}", returncode=code)

    def _code(self, alias: str, words: list[str]) -> int:
        """Run a command, and return its exit code."""
        try:
            self._run(alias, words, "manage.py holdfast")
        except SystemExit as ended:
            return int(ended.code or 0)
        return 0

    def _run_in_test(self, alias: str, words: list[str]) -> int:
        """Run a command in another thread, while this one, whose transaction is the test's, does its queries."""
        if words[:1] != ["worker"]:
            return async_to_sync(sync_to_async(self._code, thread_sensitive=False))(alias, words)
        if any(each.in_atomic_block for each in connections.all(initialized_only=True)):
            raise CommandError(
                "the threads of a worker do not see the transaction of a TestCase: call run_jobs() of "
                "holdfast.contrib.django.testing, or derive from TransactionTestCase"
            )
        return self._code(alias, words)

    def _run(self, alias: str, words: list[str], name: str) -> None:
        from holdfast.cli import cli

        os.environ.setdefault(SETUP, "django:setup")
        name += "" if alias == DEFAULT else f" --alias {alias}"  # for usage and hints, which can be copied
        before = os.environ.get(APP)
        os.environ[APP] = f"holdfast.contrib.django.project:{alias}"
        try:
            cli.main(words, prog_name=name)
        finally:
            sys.stdout.flush()
            if before is None:
                os.environ.pop(APP, None)
            else:
                os.environ[APP] = before


Command = ManageHoldfast
"""The name by which Django finds it."""
