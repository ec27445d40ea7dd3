"""A driver that uses source and sink with secrets in every way there is, and shows all that Spark knows of its plans.

    python -m tests.spark.secured_driver OPTIONS.json DIRECTORY

What it prints, its event log and its checkpoints are in DIRECTORY's care; the test looks for the secrets there.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from pathlib import Path

from pyspark.sql import SparkSession

from oncelog.spark import build_session, exactly_once

DONE_SECONDS = 60


def main(told: dict, directory: Path) -> None:
    logging.basicConfig(level=logging.DEBUG)
    logging.getLogger("py4j").setLevel(logging.INFO)  # it would show every argument of every call
    spark = build_session(master="local[2]", settings=settings(directory))
    spark.sparkContext.setLogLevel("INFO")
    batch(spark, told)
    stream(spark, told, directory / "foreach", by_format=False)
    stream(spark, told, directory / "format", by_format=True)
    failure(spark, told)
    show_plans(spark)
    spark.stop()
    print("done")


def settings(directory: Path) -> dict[str, str]:
    events = directory / "events"
    events.mkdir()
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.sql.ui.explainMode": "extended",
        "spark.sql.planChangeLog.level": "WARN",
    }


def batch(spark: SparkSession, told: dict) -> None:
    for way in told["ways"]:
        rows = spark.read.format("oncelog").options(subscribe=told["source"], **way).load()
        for mode in ("simple", "extended", "codegen", "cost", "formatted"):
            rows.explain(mode=mode)
        print(rows._jdf.queryExecution().toString(), rows._jdf.queryExecution().logical().treeString(), rows)
        rows.select("key", "value").write.format("oncelog").options(topic=told["target"], **way).mode("append").save()


def stream(spark: SparkSession, told: dict, directory: Path, *, by_format: bool) -> None:
    reading, writing = told["ways"]
    rows = spark.readStream.format("oncelog").options(subscribe=told["source"], startingOffsets="earliest", **reading)
    writer = rows.load().select("key", "value").writeStream.option("checkpointLocation", str(directory))
    if by_format:
        writer = writer.format("oncelog").options(topic=told["target"], **writing)
    else:
        sink = exactly_once(topic=told["target"], transactional_id=told["writer"], options=writing)
        print(sink, vars(sink))
        writer = writer.foreachBatch(sink)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(DONE_SECONDS), "the query did not end"
    query.explain(extended=True)
    assert query.exception() is None, query.exception()
    print([progress.json for progress in query.recentProgress], query.status)


def failure(spark: SparkSession, told: dict) -> None:
    wrong = told["ways"][1] | told["wrong"]
    try:
        spark.read.format("oncelog").options(subscribe=told["source"], **wrong).load().collect()
    except Exception:  # noqa: BLE001 - what it says is what is looked at
        traceback.print_exc()
    else:
        raise AssertionError("the wrong password was accepted")


def show_plans(spark: SparkSession) -> None:
    """What the SQL page of Spark's user interface would show."""
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    for number in range(executions.size()):
        print(executions.apply(number).physicalPlanDescription())


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
