"""`oncelog prepare`: prepare a machine once, so that every Spark session on it starts sooner."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.needs import check_spark
from oncelog.cli.run.reports import Reports
from oncelog.client import Client, NewTopic, Producer
from oncelog.testing import broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from oncelog.spark import Java
    from oncelog.spark.user_function import Transform

SOURCE, PARTITIONS, RECORDS = "in", 2, 200
JSON_RECORD = b'{"kind": "a", "amount": 1}'


def command() -> None:
    """Prepare this machine for Spark sessions: compile the code that is compiled once, and archive Java's classes.

    Runs two small pipelines on a log of its own. Run it again after an update of PySpark, Java or oncelog.
    """
    check_spark("prepare")
    from oncelog.cli.needs import announce_java
    from oncelog.spark.session.java import cache_directory
    from oncelog.spark.session.spark_home import ArchiveError, class_archive, recorded, use_installed_pyspark

    java = announce_java()
    home = use_installed_pyspark(cache_directory(os.environ))
    if home is None:
        raise CommandError("SPARK_HOME is set: only the installed PySpark can be prepared", ExitStatus.USAGE)
    archive = class_archive(home, java)
    archive.unlink(missing_ok=True)
    try:
        with recorded(archive, java), tempfile.TemporaryDirectory(prefix="oncelog-prepare-") as directory:
            rehearse(java, Path(directory))
    except ArchiveError as error:
        print(f"Java's classes are not archived, and sessions start as they did: {error}")
        return
    print(f"Java's classes are in {archive} ({archive.stat().st_size >> 20} MB)")


def rehearse(java: Java, directory: Path) -> None:
    """Run a stateless and a stateful pipeline over a few records. The session stays open."""
    from oncelog.spark import build_session

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
    from oncelog.cli.run.pipeline import Pipeline, run_pipeline

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
    from pyspark.sql import functions as f

    value = f.from_json(f.col("value").cast("string"), "kind string, amount long")
    return rows.select("key", value.alias("row")).select("key", f.to_json("row").alias("value"))


def totals(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    kind = f.from_json(f.col("value").cast("string"), "kind string, amount long")
    grouped = rows.select(kind.alias("row")).groupBy("row.kind").agg(f.sum("row.amount").alias("amount"))
    return grouped.select(f.col("kind").alias("key"), f.to_json(f.struct("kind", "amount")).alias("value"))
