import asyncio

import redis.asyncio
import servers

from holdfast import Holdfast
from holdfast.store.redis import RedisStore

server = servers.shared(servers.valkey_binary() or servers.redis_binary())
client = redis.asyncio.Redis.from_url(server.url)
# piece 1

# piece 2


@app.task()
async def send(to: str) -> str:
    return to


async def main() -> None:
    async with app:
        await send.options(job_id="one").enqueue("ann")
    (entry,) = await client.xrange("{shop:default}:events")
    event = decoded(entry[1])
    assert (event["id"], event["transition"], event["state"]) == ("one", "enqueue", "waiting"), event
    await client.aclose()


asyncio.run(main())
