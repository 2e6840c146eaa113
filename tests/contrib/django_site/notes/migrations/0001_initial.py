"""The table of notes."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """The table of notes."""

    initial = True
    dependencies = []
    operations = [
        migrations.CreateModel(
            name="Note",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("text", models.CharField(max_length=100)),
            ],
        )
    ]
