"""Exactly-once pipelines from topic to topic with PySpark, on oncelog or on Apache Kafka.

    events = spark.readStream.format("oncelog").option("kafka.bootstrap.servers", servers).option("subscribe", "in").load()

    (events.writeStream
        .foreachBatch(exactly_once(topic="out", transactional_id="pipeline", bootstrap_servers=servers))
        .option("checkpointLocation", "checkpoints/pipeline")
        .start())

One micro-batch is one Kafka transaction, with the offsets of the input inside.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from oncelog.lazy_names import imported
from oncelog.spark.known_source import make_source_known

for _needed in ("numba", "pyarrow", "pyspark"):
    if find_spec(_needed) is None:
        raise ImportError(f'oncelog.spark needs {_needed}: pip install "oncelog[spark]"', name=_needed)

if TYPE_CHECKING:
    from oncelog.client import BrokerRefused, OutcomeUnknown, ProducerFenced
    from oncelog.spark.checkpoint import CheckpointError
    from oncelog.spark.data_source import OncelogDataSource
    from oncelog.spark.metrics import BatchReport, SinkMetrics
    from oncelog.spark.options.table import OptionError
    from oncelog.spark.query import QueryError
    from oncelog.spark.query_progress import lag, progress, source_metrics
    from oncelog.spark.session.java import Java, JavaNotFoundError, find_java, use_java
    from oncelog.spark.session.session import build_session
    from oncelog.spark.sink.batch_write import WriteIdError, write_exactly_once
    from oncelog.spark.sink.exactly_once import committed_offsets, exactly_once
    from oncelog.spark.sink.fence import FenceError
    from oncelog.spark.sink.hanging import HangingTransaction
    from oncelog.spark.sink.micro_batches import ExactlyOnceSink
    from oncelog.spark.sink.transaction import AttemptsExhausted
    from oncelog.spark.sink.writable import RowError
    from oncelog.spark.source.errors import DataLossError
    from oncelog.spark.statefulness import NeedsCheckpoint
    from oncelog.spark.stateless import StatelessLoop, run_stateless
    from oncelog.spark.user_function import FunctionError

__all__ = [
    "AttemptsExhausted",
    "BatchReport",
    "BrokerRefused",
    "CheckpointError",
    "DataLossError",
    "ExactlyOnceSink",
    "FenceError",
    "FunctionError",
    "HangingTransaction",
    "Java",
    "JavaNotFoundError",
    "NeedsCheckpoint",
    "OncelogDataSource",
    "OptionError",
    "OutcomeUnknown",
    "ProducerFenced",
    "QueryError",
    "RowError",
    "SinkMetrics",
    "StatelessLoop",
    "WriteIdError",
    "build_session",
    "committed_offsets",
    "exactly_once",
    "find_java",
    "lag",
    "progress",
    "run_stateless",
    "source_metrics",
    "use_java",
    "write_exactly_once",
]

# Spark starts several Python processes for each query, and most need one of these classes: all of them together take 0.5 s of
# the processor to import.
_NAMES = {
    "oncelog.client": ("BrokerRefused", "OutcomeUnknown", "ProducerFenced"),
    "oncelog.spark.checkpoint": ("CheckpointError",),
    "oncelog.spark.data_source": ("OncelogDataSource",),
    "oncelog.spark.metrics": ("BatchReport", "SinkMetrics"),
    "oncelog.spark.options.table": ("OptionError",),
    "oncelog.spark.query": ("QueryError",),
    "oncelog.spark.query_progress": ("lag", "progress", "source_metrics"),
    "oncelog.spark.session.java": ("Java", "JavaNotFoundError", "find_java", "use_java"),
    "oncelog.spark.session.session": ("build_session",),
    "oncelog.spark.sink.batch_write": ("WriteIdError", "write_exactly_once"),
    "oncelog.spark.sink.exactly_once": ("committed_offsets", "exactly_once"),
    "oncelog.spark.sink.fence": ("FenceError",),
    "oncelog.spark.sink.hanging": ("HangingTransaction",),
    "oncelog.spark.sink.micro_batches": ("ExactlyOnceSink",),
    "oncelog.spark.sink.transaction": ("AttemptsExhausted",),
    "oncelog.spark.sink.writable": ("RowError",),
    "oncelog.spark.source.errors": ("DataLossError",),
    "oncelog.spark.statefulness": ("NeedsCheckpoint",),
    "oncelog.spark.stateless": ("StatelessLoop", "run_stateless"),
    "oncelog.spark.user_function": ("FunctionError",),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    return imported(__name__, _HOMES, name)


make_source_known()
