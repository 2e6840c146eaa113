"""A write of a DataFrame is one span, and every job of a row carries its context."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from spans import attribute, context, is_child, links, recording
from spark_shop import Shop

from holdfast.errors import ConfigError
from holdfast.spark import write


def test_the_jobs_of_a_write_are_linked_to_the_span_that_wrote_them(spark: SparkSession, shop: Shop) -> None:
    df = spark.createDataFrame([("pear", 1), ("fig", 2)], "item string, number int")
    with recording() as spans:
        with spans.tracer.start_as_current_span("notebook"):
            write(df, shop.quote, app=shop.target, name="traced", tags=["vip"])
        assert shop.burst("quotes").completed == 2
    sent, ran = spans.one("send quotes"), spans.named("process quotes")
    assert is_child(sent, spans.one("notebook"))
    assert attribute(sent, "messaging.batch.message_count") == 2
    assert len(ran) == 2
    assert all(links(each, sent) and each.parent is None for each in ran)
    for job in shop.jobs("quotes").values():
        assert f"{context(sent).trace_id:032x}" in job.headers["traceparent"]
        assert job.tags == ("vip",)


def test_a_write_may_give_headers_to_its_jobs(spark: SparkSession, shop: Shop) -> None:
    df = spark.createDataFrame([("pear", 1)], "item string, number int")
    options = {"url": shop.url, "app": shop.target, "task": "quote", "headers": '{"tenant": "a"}'}
    df.write.format("holdfast").mode("append").options(**options).save()
    (job,) = shop.jobs("quotes").values()
    assert job.headers == {"tenant": "a"}


def test_headers_that_are_none_are_refused() -> None:
    from holdfast.spark.write.options import parse_options

    with pytest.raises(ConfigError, match=r'option\("headers", .*\): a JSON object of strings'):
        parse_options({"headers": "tenant=a"})
