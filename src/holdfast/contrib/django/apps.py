"""The Django app: tasks are found when it is ready, and the schema is looked after by `migrate`."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules


class HoldfastConfig(AppConfig):
    """`holdfast.contrib.django` in `INSTALLED_APPS`."""

    name = "holdfast.contrib.django"
    label = "holdfast"
    verbose_name = "Holdfast"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Import every `tasks.py`, register checks, and bring the schema up after each `migrate`."""
        from . import checks  # noqa: F401
        from .schema import after_migrate

        post_migrate.connect(after_migrate, sender=self, dispatch_uid="holdfast")
        autodiscover_modules("tasks")
