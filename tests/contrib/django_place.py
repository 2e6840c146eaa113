"""The site of `django_site` on a database of its own, run in processes as its users would."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psycopg
from servers import postgres, shared, valkey_binary

SITE = Path(__file__).parent / "django_site"
PYTHON = os.environ.get("DJANGO_PYTHON", sys.executable)
"""The Python whose Django is tested; `make django` names one with the newest."""


class DjangoSite:
    """The site with a database, migrated, and a Valkey for its alias `far`."""

    def __init__(self, kind: str, folder: Path, folder_of_code: Path = SITE) -> None:
        self.python = PYTHON
        self._code = folder_of_code
        binary = valkey_binary()
        assert binary is not None
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("SITE_", "PYTEST_"))},
            "DJANGO_SETTINGS_MODULE": "site_settings",
            "SITE_FAR": f"{shared(binary).url}?namespace=far-{os.getpid()}-{folder.name[-20:]}",
            "SITE_FILE": str(folder / "site.db"),
        }
        if kind == "postgres":
            self.environment["SITE_POSTGRES"] = _database(f"site_{os.getpid()}_{abs(hash(str(folder)))}")

    def run(self, *words: str, code: int = 0, timeout: float = 100) -> str:
        """Return what a Python of the site prints; it ends with this exit code."""
        done = subprocess.run(
            [self.python, *words], cwd=self._code, env=self.environment, capture_output=True, text=True, timeout=timeout
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def manage(self, *words: str, code: int = 0) -> str:
        """Return what `manage.py` prints."""
        return self.run("manage.py", *words, code=code)

    def program(self, text: str) -> str:
        """Return what a program prints that begins with Django set up."""
        return self.run("-c", f"import django\ndjango.setup()\n{text}").strip()

    def enqueue(self, *calls: str) -> None:
        """Enqueue calls of the site's tasks, as Python writes them."""
        lines = (f"get_app().sync({call.replace('(', '.enqueue(', 1)})\n" for call in calls)
        self.program(f"from notes.tasks import *\n{''.join(lines)}")

    def notes(self) -> str:
        """Return the texts of all notes, in their order as words."""
        return self.program("from notes.models import Note\nprint(sorted(each.text for each in Note.objects.all()))")


def _database(name: str) -> str:
    """Make a database of the run's server, and return its URL."""
    url = postgres().url().partition("?")[0]
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')  # type: ignore[arg-type]
    return url.rpartition("/")[0] + f"/{name}"
