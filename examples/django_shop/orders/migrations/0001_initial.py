"""The table of orders."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """The table of orders."""

    initial = True
    dependencies = []
    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("item", models.CharField(max_length=100)),
                ("to", models.EmailField(max_length=254)),
                ("confirmed", models.BooleanField(default=False)),
                ("reminders", models.IntegerField(default=0)),
                ("trouble", models.CharField(blank=True, max_length=200)),
            ],
        )
    ]
