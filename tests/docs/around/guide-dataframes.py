from pathlib import Path

URL = "sqlite:///shop.db"
Path("shop.py").write_text(
    f"""from holdfast import Holdfast

app = Holdfast({URL!r})


@app.task(queue="mail")
async def send(to: str) -> str:
    return to
"""
)


def main() -> None:
    from shop import send

    import holdfast.spark

    url = URL
    spark = holdfast.spark.session()
    df = spark.range(100).selectExpr("concat('customer-', id) AS to")
    # piece 3
    assert report.queued == 100
    df = df.selectExpr("to", "'acme' AS tenant")
    write(df, spark, url)
    stream = spark.readStream.format("rate").load().selectExpr("cast(value AS STRING) AS to")
    query = stream_to_jobs(stream)
    query.stop()
    # piece 5
    with holdfast.spark.fleet("shop:app", workers=1):
        as_they_come(df.select("to"), send)
    assert spark.read.parquet("places").where("result = to").count() == 100
    spark.stop()


def as_they_come(addresses, geocode) -> None:
    import holdfast.spark

    # piece 1


def write(df, spark, url) -> None:
    # piece 2
    pass


def stream_to_jobs(stream):
    before = set(stream.sparkSession.streams.active)
    # piece 4
    (query,) = set(stream.sparkSession.streams.active) - before
    return query


if __name__ == "__main__":
    main()
