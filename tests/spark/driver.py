"""A Spark driver that copies topics exactly once, one streaming query for each lane, until somebody kills it.

    python -m tests.spark.driver PLAN.json

A query that ends is started again, as a supervisor would, unless the plan says "once". Why it ended goes into the plan's
file of endings. A line `restart LANE` on the standard input ends that lane's query in good order.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from oncelog.spark import build_session, exactly_once, run_stateless

INITIALIZING = "Initializing sources"


class Form(Enum):
    """What kind of pipeline copies."""

    QUERY = "query"
    STATEFUL = "stateful"
    NO_CHECKPOINT = "no-checkpoint"


def raising_once(flag: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A transformation that changes nothing, and fails when it finds the flag; it takes the flag away first."""

    def passing(batches: Iterator[Any]) -> Iterator[Any]:
        if Path(flag).exists():
            Path(flag).unlink(missing_ok=True)
            raise RuntimeError("the transformation failed once, as it was told to")
        yield from batches

    return passing


def rows(spark: Any, lane: dict[str, Any]) -> Any:
    options = {
        "kafka.bootstrap.servers": lane["servers"],
        "subscribe": lane["source"],
        "startingOffsets": "earliest",
        "maxPartitions": str(lane["tasks_max"]),
        **({} if lane["form"] == Form.STATEFUL.value else {"maxOffsetsPerTrigger": str(lane["offsets_max"])}),
    }
    found = spark.readStream.format("oncelog").options(**options).load()
    if lane["form"] == Form.STATEFUL.value:
        return found.groupBy("key").count().selectExpr("key", "cast(count as string) value")
    return copied(found, lane["flag"])


def copied(rows: Any, flag: str) -> Any:
    upper = rows.selectExpr("key", "upper(cast(value as string)) value")
    return upper.mapInArrow(raising_once(flag), upper.schema) if flag else upper


def run_without_checkpoint(spark: Any, lane: dict[str, Any]) -> None:
    run_stateless(
        spark,
        lambda rows: copied(rows, lane["flag"]),
        from_topic=lane["source"],
        to_topic=lane["target"],
        bootstrap_servers=lane["servers"],
        transactional_id=lane["transactional_id"],
        max_offsets_per_batch=lane["offsets_max"],
        mode=lane["mode"],
    )


def start(spark: Any, lane: dict[str, Any]) -> tuple[Any, Any]:
    sink = exactly_once(
        topic=lane["target"],
        transactional_id=lane["transactional_id"],
        bootstrap_servers=lane["servers"],
        mode=lane["mode"],
    )
    query = (
        rows(spark, lane)
        .writeStream.outputMode("update" if lane["form"] == Form.STATEFUL.value else "append")
        .foreachBatch(sink)
        .option("checkpointLocation", lane["checkpoint"])
        .trigger(processingTime="200 milliseconds")
        .start()
    )
    return sink, query


class Supervisor:
    """One thread for each lane."""

    def __init__(self, spark: Any, plan: dict[str, Any]) -> None:
        self._spark, self._plan = spark, plan
        self._queries: dict[str, Any] = {}
        # A query that starts brings a Python process of its own; Spark gives each of them ten seconds to report.
        self._starting = threading.Semaphore(1)
        self._breath = threading.Event()
        self._writing = threading.Lock()

    def run(self) -> None:
        for lane in self._plan["lanes"]:
            threading.Thread(target=self._keep_running, args=(lane,), daemon=True).start()
        for line in sys.stdin:
            command, name = line.split()
            assert command == "restart", line
            if name in self._queries:
                self._queries[name].stop()

    def _keep_running(self, lane: dict[str, Any]) -> None:
        run = run_without_checkpoint if lane["form"] == Form.NO_CHECKPOINT.value else self._run_query
        while True:
            try:
                run(self._spark, lane)
                self._note(lane, "stopped")
            except Exception as error:  # noqa: BLE001 - whatever ended the query, it is started again
                self._note(lane, str(error))
                self._breath.wait(0.5)
            if self._plan.get("once"):
                return

    def _run_query(self, spark: Any, lane: dict[str, Any]) -> None:
        sink = None
        try:
            with self._starting:
                sink, query = start(spark, lane)
                self._queries[lane["name"]] = query
                _await_first_poll(query)
            query.awaitTermination()
        finally:
            if sink is not None:
                sink.close()

    def _note(self, lane: dict[str, Any], ending: str) -> None:
        with self._writing, open(self._plan["endings"], "a") as endings:
            endings.write(json.dumps({"lane": lane["name"], "ending": ending}) + "\n")


def _await_first_poll(query: Any) -> None:
    while query.isActive and query.status["message"] == INITIALIZING:
        query.awaitTermination(0.05)


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        **plan.get("settings", {}),
    }
    spark = build_session(app_name="kill-matrix", master=plan["master"], settings=settings)
    spark.sparkContext.setLogLevel("FATAL")
    Supervisor(spark, plan).run()


if __name__ == "__main__":
    main()
