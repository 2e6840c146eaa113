import asyncio
import types

import django
import psycopg
import servers
from django.conf import settings
from django.db import models

from holdfast import Holdfast, Job

server = servers.postgres()
app = Holdfast(server.url("pieces"))
parts = psycopg.conninfo.conninfo_to_dict(server.url("pieces").partition("?")[0])
database = {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": parts["dbname"],
    "USER": parts["user"],
    "HOST": parts["host"],
    "PORT": parts["port"],
}
settings.configure(DATABASES={"default": database})
django.setup()


class User(models.Model):
    name = models.TextField()

    class Meta:
        app_label = "shop"


@app.task()
async def welcome(user: int) -> None: ...


@app.task()
async def confirm(order: int) -> None: ...


# piece 1


# piece 2


def prepare() -> None:
    with connection.schema_editor() as schema:
        schema.create_model(User)
        schema.execute("CREATE TABLE payments (id integer)")


async def main() -> None:
    async with app:
        await pay.enqueue(7)
        report = await app.worker().run(burst=True)
        assert report.completed == 3, report  # the welcome, the payment, its confirmation


with app.sync:
    prepare()
    register(types.SimpleNamespace(POST={"name": "ann"}))
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM shop_user")
        assert cursor.fetchone() == (1,)
connection.close()
asyncio.run(main())
server.close()
