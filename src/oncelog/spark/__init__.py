"""Exactly-once pipelines from topic to topic with PySpark, on oncelog or on Apache Kafka.

    events = spark.readStream.format("oncelog").option("kafka.bootstrap.servers", servers).option("subscribe", "in").load()

    (events.writeStream
        .foreachBatch(exactly_once(topic="out", transactional_id="pipeline", bootstrap_servers=servers))
        .option("checkpointLocation", "checkpoints/pipeline")
        .start())

One micro-batch is one Kafka transaction, with the offsets of the input inside.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

for _needed in ("numba", "pyarrow", "pyspark"):
    if find_spec(_needed) is None:
        raise ImportError(f'oncelog.spark needs {_needed}: pip install "oncelog[spark]"', name=_needed)

if TYPE_CHECKING:
    from oncelog.client import OutcomeUnknown, ProducerFenced
    from oncelog.spark.checkpoint import CheckpointError
    from oncelog.spark.data_source import OncelogDataSource
    from oncelog.spark.fence import FenceError
    from oncelog.spark.java import Java, JavaNotFoundError, find_java, use_java
    from oncelog.spark.metrics import BatchReport, SinkMetrics
    from oncelog.spark.micro_batches import ExactlyOnceSink
    from oncelog.spark.options import OptionError
    from oncelog.spark.query import QueryError
    from oncelog.spark.reading import DataLossError
    from oncelog.spark.session import build_session
    from oncelog.spark.sink import committed_offsets, exactly_once
    from oncelog.spark.source import lag
    from oncelog.spark.stateless import StatelessLoop, run_stateless
    from oncelog.spark.transaction import AttemptsExhausted

__all__ = [
    "AttemptsExhausted",
    "BatchReport",
    "CheckpointError",
    "DataLossError",
    "ExactlyOnceSink",
    "FenceError",
    "Java",
    "JavaNotFoundError",
    "OncelogDataSource",
    "OptionError",
    "OutcomeUnknown",
    "ProducerFenced",
    "QueryError",
    "SinkMetrics",
    "StatelessLoop",
    "build_session",
    "committed_offsets",
    "exactly_once",
    "find_java",
    "lag",
    "run_stateless",
    "use_java",
]

# Spark starts several Python processes for each query, and most need one class of these: what compiled code and a session
# cost to import, only those pay that use them.
_HOMES = {
    "AttemptsExhausted": "oncelog.spark.transaction",
    "BatchReport": "oncelog.spark.metrics",
    "CheckpointError": "oncelog.spark.checkpoint",
    "DataLossError": "oncelog.spark.reading",
    "ExactlyOnceSink": "oncelog.spark.micro_batches",
    "FenceError": "oncelog.spark.fence",
    "Java": "oncelog.spark.java",
    "JavaNotFoundError": "oncelog.spark.java",
    "OncelogDataSource": "oncelog.spark.data_source",
    "OptionError": "oncelog.spark.options",
    "OutcomeUnknown": "oncelog.client",
    "ProducerFenced": "oncelog.client",
    "QueryError": "oncelog.spark.query",
    "SinkMetrics": "oncelog.spark.metrics",
    "StatelessLoop": "oncelog.spark.stateless",
    "build_session": "oncelog.spark.session",
    "committed_offsets": "oncelog.spark.sink",
    "exactly_once": "oncelog.spark.sink",
    "find_java": "oncelog.spark.java",
    "lag": "oncelog.spark.source",
    "run_stateless": "oncelog.spark.stateless",
    "use_java": "oncelog.spark.java",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(home), name)
    globals()[name] = found
    return found
