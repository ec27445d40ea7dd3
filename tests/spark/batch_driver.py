"""A Spark driver that makes batch writes, one after the other, until somebody kills it.

    python -m tests.spark.batch_driver PLAN.json

A line with a number on the standard input allows one write more. A write that fails is made again, as a supervisor would. A
driver that is started again begins with the first write: those that are in the log add nothing. What came of each attempt
goes into the plan's file of endings.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from oncelog.spark import build_session, write_exactly_once
from tests.spark.driver import raising_once

TASKS = 4
FORMAT = "format"


def rows(spark: Any, write: dict[str, Any]) -> Any:
    found = spark.range(0, write["count"], 1, TASKS).selectExpr(
        f"'{write['write_id']}' key", "cast(id as string) value"
    )
    return found.mapInArrow(raising_once(write["flag"]), found.schema)


def make(spark: Any, write: dict[str, Any]) -> str:
    names = {"topic": write["topic"], "write_id": write["write_id"], "transactional_id": write["transactional_id"]}
    if write["mode"] != FORMAT:
        report = write_exactly_once(
            rows(spark, write), bootstrap_servers=write["servers"], mode=write["mode"], batch_bytes_max=20_000, **names
        )
        return "skipped" if report.is_skipped else "written"
    options = {
        "topic": write["topic"],
        "writeId": write["write_id"],
        "kafka.transactional.id": write["transactional_id"],
        "kafka.bootstrap.servers": write["servers"],
        "kafka.batch.size": "20000",
        "stagingLocation": write["staging"],
    }
    rows(spark, write).write.format("oncelog").options(**options).mode("append").save()
    return "written"


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    spark = build_session(app_name="batch-kills", master="local[2,3]", settings={"spark.driver.memory": "1g"})
    spark.sparkContext.setLogLevel("FATAL")
    for line in sys.stdin:
        write = plan["writes"][int(line)]
        ending = ""
        while ending not in ("written", "skipped"):
            try:
                ending = make(spark, write)
            except Exception as error:  # noqa: BLE001 - whatever ended the write, it is made again
                ending = str(error)
            with open(plan["endings"], "a") as endings:
                endings.write(json.dumps({"lane": write["write_id"], "ending": ending}) + "\n")


if __name__ == "__main__":
    main()
