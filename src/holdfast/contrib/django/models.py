"""No table: only what Django's permissions and admin need to know of jobs, which are in Holdfast's own store."""

from __future__ import annotations

from django.db import models


class AdminJob(models.Model):
    """A job as the admin lists it. It is read from the store of its alias, never from a table of this model."""

    class Meta:
        managed = False
        app_label = "holdfast"
        verbose_name = "job"
        verbose_name_plural = "jobs"
        default_permissions = ()
        permissions = (
            ("view_job", "Can view jobs"),
            ("requeue_job", "Can requeue jobs"),
            ("cancel_job", "Can cancel jobs"),
            ("delete_job", "Can delete jobs"),
            ("view_payload", "Can view payloads and results of jobs"),
        )
