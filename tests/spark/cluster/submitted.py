"""A program for spark-submit, as a user writes it: copies a topic, once in each mode, and says how that went.

    spark-submit --master spark://... submitted.py PLAN.json

One task of each stage fails once, and one waits until Spark has started a copy of it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from oncelog.spark import exactly_once

COPY_SECONDS_MAX = 120


def troubled(directory: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A transformation that changes nothing, in tasks of which one is tried again and another runs twice."""

    def passing(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        place, attempt = context.partitionId(), context.attemptNumber()
        (Path(directory) / f"task-{place}-attempt-{attempt}").touch()
        if place == 1 and attempt == 0:
            raise RuntimeError("the task fails once, as it was told to")
        deadline = time.monotonic() + COPY_SECONDS_MAX
        while place == 0 and attempt == 0 and not (Path(directory) / "task-0-attempt-1").exists():
            assert time.monotonic() < deadline, "Spark started no copy"
            time.sleep(0.01)
        yield from batches

    return passing


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    spark = SparkSession.builder.appName("submitted").getOrCreate()
    source = {"kafka.bootstrap.servers": plan["servers"], "subscribe": plan["source"], "startingOffsets": "earliest"}
    for mode, target in plan["targets"].items():
        rows = spark.readStream.format("oncelog").options(**source).load().select("key", "value")
        if plan["trouble"]:
            (Path(plan["directory"]) / mode).mkdir()
            rows = rows.mapInArrow(troubled(f"{plan['directory']}/{mode}"), rows.schema)
        sink = exactly_once(topic=target, transactional_id=target, bootstrap_servers=plan["servers"], mode=mode)
        query = (
            rows.writeStream.foreachBatch(sink)
            .option("checkpointLocation", f"{plan['directory']}/checkpoint-{mode}")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        print(
            json.dumps({"mode": mode, "sent": sink.last_batch.mode.value, "attempts": sink.metrics.retries}), flush=True
        )


if __name__ == "__main__":
    main()
