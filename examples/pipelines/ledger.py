"""Orders and refunds in, one ledger out: two flows of one sink, each of them exactly once, and a table of balances.

    oncelog topics create orders refunds ledger ledger-rejected
    spark-pipelines --conf spark.sql.catalogImplementation=hive run --spec examples/pipelines/spark-pipeline.yml

A run writes what is new and ends. Each flow is a query with a transactional id of its own, which {query} names:
ledger-ordered and ledger-refunded. What has no amount goes to another topic, in the same transaction.
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
SERVERS = spark.conf.get("ledger.bootstrap.servers")


def source(topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": SERVERS, "subscribe": topic, "startingOffsets": "earliest"}


def entries(records: DataFrame, sign: int) -> DataFrame:
    """The customer under `key`, the amount with its sign under `value`, and the topic that both go to."""
    text = F.col("value").cast("string")
    amount = text.try_cast("int") * sign
    return records.select(
        "key",
        F.coalesce(amount.cast("string"), text).alias("value"),
        F.when(amount.isNull(), "ledger-rejected").otherwise("ledger").alias("topic"),
    )


dp.create_sink("ledger", "oncelog", {"kafka.bootstrap.servers": SERVERS, "kafka.transactional.id": "ledger-{query}"})


@dp.append_flow(target="ledger")
def ordered() -> DataFrame:
    return entries(spark.readStream.format("oncelog").options(**source("orders")).load(), sign=1)


@dp.append_flow(target="ledger")
def refunded() -> DataFrame:
    return entries(spark.readStream.format("oncelog").options(**source("refunds")).load(), sign=-1)


@dp.materialized_view
def balances() -> DataFrame:
    """The balance of each customer: what was ordered and not given back. A run computes it anew, from all that the topics have."""
    orders, refunds = (spark.read.format("oncelog").options(**source(topic)).load() for topic in ("orders", "refunds"))
    accepted = entries(orders, sign=1).union(entries(refunds, sign=-1)).where("topic = 'ledger'")
    customer, amount = F.col("key").cast("string"), F.col("value").cast("int")
    return accepted.groupBy(customer.alias("customer")).agg(F.sum(amount).alias("amount"))
