"""Two small pipelines on a log of its own: what a Spark session loads and compiles, it has loaded and compiled after them."""

from __future__ import annotations

import threading
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from oncelog.cli.run.pipeline import Pipeline, run_pipeline
from oncelog.cli.run.reports import Reports
from oncelog.client import Client, NewTopic, Producer
from oncelog.spark import Java, build_session
from oncelog.spark.user_function import Transform
from oncelog.testing import broker

SOURCE, PARTITIONS, RECORDS = "in", 2, 200
JSON_RECORD = b'{"kind": "a", "amount": 1}'


def rehearse(java: Java, directory: Path) -> None:
    """One pipeline that remembers nothing and one that does, each over a few records. Leaves the session behind."""
    spark = build_session(app_name="oncelog prepare", master="local[2]", java=java)
    spark.sparkContext.setLogLevel("OFF")
    with broker() as log:
        fill(log.bootstrap_servers)
        for name, transform, mode in (("stateless", parsed, "append"), ("stateful", totals, "update")):
            run_once(spark, log.bootstrap_servers, directory / name, transform, mode)


def fill(bootstrap_servers: str) -> None:
    with Client(bootstrap_servers) as client:
        client.create_topics([NewTopic(name, PARTITIONS, 1) for name in (SOURCE, "stateless", "stateful")])
    with Producer(bootstrap_servers) as producer:
        for number in range(RECORDS):
            producer.send(SOURCE, JSON_RECORD, key=b"%d" % number)
        producer.flush()


def run_once(spark: SparkSession, bootstrap_servers: str, checkpoint: Path, transform: Transform, mode: str) -> None:
    pipeline = Pipeline(
        transform=transform,
        name=checkpoint.name,
        sources=(SOURCE,),
        targets=(checkpoint.name,),
        bootstrap_servers=bootstrap_servers,
        kafka_options={},
        transactional_id=checkpoint.name,
        checkpoint=checkpoint,
        output_mode=mode,
        trigger=None,
        interval_ms=0,
        source_options={},
        once=True,
        write_to_input=False,
    )
    run_pipeline(spark, pipeline, Reports(lambda report: None), threading.Event())


def parsed(rows: DataFrame) -> DataFrame:
    value = f.from_json(f.col("value").cast("string"), "kind string, amount long")
    return rows.select("key", value.alias("row")).select("key", f.to_json("row").alias("value"))


def totals(rows: DataFrame) -> DataFrame:
    kind = f.from_json(f.col("value").cast("string"), "kind string, amount long")
    grouped = rows.select(kind.alias("row")).groupBy("row.kind").agg(f.sum("row.amount").alias("amount"))
    return grouped.select(f.col("kind").alias("key"), f.to_json(f.struct("kind", "amount")).alias("value"))
