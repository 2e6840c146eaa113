import asyncio

import psycopg
import servers

from holdfast import Holdfast

server = servers.postgres()
url = server.url("pieces").partition("?")[0]
app = Holdfast(server.url("pieces"))


@app.task()
async def send(to: str) -> None: ...


async def main() -> None:
    async with app:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await connection.execute("CREATE TABLE orders (id integer)")
        # piece 1
        assert (await app.worker().run(burst=True)).completed == 1


asyncio.run(main())
server.close()
