import asyncio

from holdfast import Holdfast, Permanent
from holdfast.spark import session

url = "sqlite:///jobs.db"
app = Holdfast(url)


@app.task()
async def charge() -> None:
    raise Permanent("the card has expired")


async def work() -> None:
    async with app:
        await charge.enqueue()
        await app.worker().run(burst=True)


asyncio.run(work())
spark = session()
# piece 1
assert failed.count() == 0
# piece 2
query.awaitTermination()
assert spark.read.parquet("failures").count() == 1
spark.stop()
