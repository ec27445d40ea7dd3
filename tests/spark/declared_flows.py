"""Sinks and flows that a plan describes, for spark-pipelines to import; `flows.plan` says where the plan is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
plan = json.loads(Path(spark.conf.get("flows.plan")).read_text())


def declare(flow: dict[str, Any]) -> None:
    def rows() -> DataFrame:
        return spark.readStream.format("oncelog").options(**flow["source"]).load().selectExpr(*flow["columns"])

    dp.append_flow(target=flow["sink"], name=flow["name"])(rows)


for name, options in plan["sinks"].items():
    dp.create_sink(name, "oncelog", options)
for one in plan["flows"]:
    declare(one)
