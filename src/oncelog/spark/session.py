"""A Spark session for exactly-once pipelines."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pyspark.sql import SparkSession

from oncelog.spark.java import Java, cache_directory, find_java, use_java
from oncelog.spark.spark_home import use_installed_pyspark

SETTINGS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Record batches are built from Arrow batches: fewer and larger ones are cheaper to hand to Python.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    "spark.python.daemon.module": "oncelog.spark.daemon",
}


def build_session(
    *,
    app_name: str = "oncelog",
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    java: Java | None = None,
) -> SparkSession:
    """Start a session, or return the one that runs, with the Java that `find_java` finds unless one is given.

    `master` and `settings` are Spark's own; without a master Spark decides. Raises JavaNotFoundError.
    """
    if SparkSession.getActiveSession() is None:
        use_java(java or find_java())
        if _is_local(master):
            use_installed_pyspark(cache_directory(os.environ))
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for name, value in {**_local_settings(master), **SETTINGS, **(settings or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _local_settings(master: str | None) -> dict[str, str]:
    """On one machine Spark's default of 200 shuffle partitions would make 200 tasks of a small micro-batch."""
    if master is None or not _is_local(master):
        return {}
    return {"spark.sql.shuffle.partitions": str(_cores(master)), "spark.ui.enabled": "false"}


def _is_local(master: str | None) -> bool:
    return master is not None and master.startswith("local")


def _cores(master: str) -> int:
    asked = master.removeprefix("local").strip("[]").split(",")[0]
    if asked.isdigit():
        return int(asked)
    return (os.cpu_count() or 1) if asked == "*" else 1
