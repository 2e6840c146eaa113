"""Settings of a site whose databases the environment names: `SITE_POSTGRES`, or else a SQLite file at `SITE_FILE`."""

import importlib.util
import os
import sys
from urllib.parse import urlsplit

from holdfast import Retry

SECRET_KEY = "of tests"
DEBUG = False
ALLOWED_HOSTS = ["*"]
USE_TZ = True
ROOT_URLCONF = "notes.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"
ON_POSTGRES = bool(os.environ.get("SITE_POSTGRES"))
IN_CORE = importlib.util.find_spec("django.tasks") is not None

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "holdfast.contrib.django",
    *([] if IN_CORE else ["django_tasks"]),
    "notes",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]


def _database() -> dict[str, object]:
    if ON_POSTGRES:
        parts = urlsplit(os.environ["SITE_POSTGRES"])
        return {
            "ENGINE": "django.db.backends.postgresql", "NAME": parts.path.strip("/"), "HOST": parts.hostname,
            "PORT": parts.port, "USER": parts.username, "PASSWORD": parts.password or "",
            "TEST": {"NAME": f"test_site_{os.getpid()}"},
        }  # fmt: skip
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SITE_FILE", "site.db"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    }


DATABASES = {"default": _database()}
HOLDFAST = {
    "default": {"DATABASE": "default", "NAMESPACE": "jobs"},
    "mail": {"DATABASE": "default", "NAMESPACE": "mail", "OPTIONS": {"timeout": 30}},
    "far": {"URL": os.environ.get("SITE_FAR", "redis://127.0.0.1:1")},
}
TASKS = {
    "default": {
        "BACKEND": "holdfast.contrib.django.backend.HoldfastBackend",
        "QUEUES": ["default", "slow"],
    },
    "any": {"BACKEND": "holdfast.contrib.django.backend.HoldfastBackend", "QUEUES": []},
    "retrying": {
        "BACKEND": "holdfast.contrib.django.backend.HoldfastBackend",
        "OPTIONS": {"retry": Retry(failures=2, initial=0)},
    },
}
LOGGING_CONFIG = None
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
