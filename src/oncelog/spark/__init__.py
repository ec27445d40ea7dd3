"""Exactly-once pipelines from topic to topic with PySpark, on oncelog or on Apache Kafka.

    events = spark.readStream.format("oncelog").option("kafka.bootstrap.servers", servers).option("subscribe", "in").load()

    (events.writeStream
        .foreachBatch(exactly_once(topic="out", transactional_id="pipeline", bootstrap_servers=servers))
        .option("checkpointLocation", "checkpoints/pipeline")
        .start())

One micro-batch is one Kafka transaction, with the offsets of the input inside.
"""

try:
    import numba as _numba  # noqa: F401
    import pyarrow as _pyarrow  # noqa: F401
    import pyspark as _pyspark  # noqa: F401
except ImportError as missing:
    raise ImportError(
        f'oncelog.spark needs {missing.name}: pip install "oncelog[spark]"', name=missing.name
    ) from missing

from oncelog.client import OutcomeUnknown, ProducerFenced
from oncelog.spark.checkpoint import CheckpointError
from oncelog.spark.exactly_once import ExactlyOnceSink
from oncelog.spark.fence import FenceError
from oncelog.spark.java import Java, JavaNotFoundError, find_java, use_java
from oncelog.spark.metrics import BatchReport, SinkMetrics
from oncelog.spark.options import OptionError
from oncelog.spark.query import QueryError
from oncelog.spark.reading import DataLossError
from oncelog.spark.session import build_session
from oncelog.spark.sink import committed_offsets, exactly_once
from oncelog.spark.source import OncelogDataSource, lag
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
