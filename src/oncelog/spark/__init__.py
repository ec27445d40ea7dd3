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

# Spark starts several Python processes for each query, and most need one class of these: what compiled code and a session
# cost to import, only those pay that use them.
_HOMES = {
    "AttemptsExhausted": "oncelog.spark.sink.transaction",
    "BatchReport": "oncelog.spark.metrics",
    "BrokerRefused": "oncelog.client",
    "CheckpointError": "oncelog.spark.checkpoint",
    "DataLossError": "oncelog.spark.source.errors",
    "ExactlyOnceSink": "oncelog.spark.sink.micro_batches",
    "FenceError": "oncelog.spark.sink.fence",
    "FunctionError": "oncelog.spark.user_function",
    "HangingTransaction": "oncelog.spark.sink.hanging",
    "Java": "oncelog.spark.session.java",
    "JavaNotFoundError": "oncelog.spark.session.java",
    "NeedsCheckpoint": "oncelog.spark.statefulness",
    "OncelogDataSource": "oncelog.spark.data_source",
    "OptionError": "oncelog.spark.options.table",
    "OutcomeUnknown": "oncelog.client",
    "ProducerFenced": "oncelog.client",
    "QueryError": "oncelog.spark.query",
    "RowError": "oncelog.spark.sink.writable",
    "SinkMetrics": "oncelog.spark.metrics",
    "StatelessLoop": "oncelog.spark.stateless",
    "WriteIdError": "oncelog.spark.sink.batch_write",
    "build_session": "oncelog.spark.session.session",
    "committed_offsets": "oncelog.spark.sink.exactly_once",
    "exactly_once": "oncelog.spark.sink.exactly_once",
    "find_java": "oncelog.spark.session.java",
    "lag": "oncelog.spark.query_progress",
    "progress": "oncelog.spark.query_progress",
    "run_stateless": "oncelog.spark.stateless",
    "source_metrics": "oncelog.spark.query_progress",
    "use_java": "oncelog.spark.session.java",
    "write_exactly_once": "oncelog.spark.sink.batch_write",
}


def __getattr__(name: str) -> object:
    return imported(__name__, _HOMES, name)


make_source_known()
