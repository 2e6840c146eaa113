"""The schema of Holdfast, in the database that has the jobs of some alias. Later versions of it come by `migrate`."""

from typing import Any

from django.db import migrations, models

from holdfast.contrib.django.schema import schemas_in


def make(apps: Any, schema_editor: Any) -> None:
    """Make the schema of every alias whose jobs are in this database."""
    for schema in schemas_in(schema_editor.connection.alias):
        schema.bring_up()


def drop(apps: Any, schema_editor: Any) -> None:
    """Drop it again, with all jobs."""
    for schema in schemas_in(schema_editor.connection.alias):
        schema.drop()


class Migration(migrations.Migration):
    """Permissions of the admin, and Holdfast's own tables."""

    initial = True
    dependencies: list[Any] = []
    operations = [
        migrations.CreateModel(
            name="AdminJob",
            fields=[("id", models.BigAutoField(primary_key=True))],
            options={
                "verbose_name": "job",
                "verbose_name_plural": "jobs",
                "permissions": (
                    ("view_job", "Can view jobs"),
                    ("requeue_job", "Can requeue jobs"),
                    ("cancel_job", "Can cancel jobs"),
                    ("delete_job", "Can delete jobs"),
                    ("view_payload", "Can view payloads and results of jobs"),
                ),
                "managed": False,
                "default_permissions": (),
            },
        ),
        migrations.RunPython(make, drop),
    ]
