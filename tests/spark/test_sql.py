"""Topics in SQL: temporary views read them, and tables of the catalog are refused."""

from __future__ import annotations

import pytest

from harness.names import unique
from tests.spark import topics

pytestmark = pytest.mark.spark

COUNT = 30


@pytest.fixture
def orders(oncelog_broker):
    servers = oncelog_broker.bootstrap_servers
    topic = topics.create(servers, unique("orders"))
    topics.produce(servers, topic, topics.keyed_records(COUNT))
    return f"OPTIONS ('kafka.bootstrap.servers' '{servers}', subscribe '{topic}')"


def test_a_temporary_view_reads_a_topic_with_its_options(spark, orders):
    name = unique("view").replace("-", "_")
    spark.sql(f"CREATE TEMPORARY VIEW {name} USING oncelog {orders}")
    assert spark.sql(f"SELECT count(*) FROM {name}").first()[0] == COUNT


def refused(function):
    with pytest.raises(Exception, match=r"a table of Spark's catalog.*CREATE TEMPORARY VIEW") as error:
        function()
    assert "Traceback" not in str(error.value)


def test_a_table_is_refused_with_what_does_instead(spark, orders):
    refused(lambda: spark.sql(f"CREATE TABLE {unique('t').replace('-', '_')} USING oncelog {orders}"))


def test_a_table_that_has_lost_its_options_is_refused(spark, tmp_path):
    """Spark makes a table that has columns without asking the source, and later passes on none of its options."""
    rows = spark.createDataFrame([("a",)], "value string")
    refused(lambda: spark.read.format("oncelog").load())
    refused(lambda: rows.write.format("oncelog").mode("append").save())
    refused(lambda: spark.readStream.format("oncelog").load())
