"""What the sink asks Spark about the streaming query it runs in: who it is, what it reads, where its checkpoint is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from oncelog.spark.checkpoint import BatchOffsets, ReadFile, batch_offsets, checkpoint_reader

QUERY_ID_PROPERTY = "sql.streaming.queryId"
EXECUTION_CLASS = "org.apache.spark.sql.execution.streaming.runtime.StreamExecution"
KAFKA_FORMATS = frozenset({"oncelog", "kafka"})
SERVERS_OPTION = "kafka.bootstrap.servers"


class QueryError(Exception):
    """The sink cannot work in this query. The message says why, and what to change."""


@dataclass(frozen=True, slots=True)
class Source:
    """One source of the micro-batch that is running. `servers` is None unless it reads Kafka topics."""

    servers: str | None
    start: str | None


class RunningQuery:
    """One run of a streaming query, as seen from inside foreachBatch."""

    def __init__(self, execution: Any, session: Any) -> None:
        self._execution = execution
        self._jvm: Any = session.sparkContext._jvm
        self._context = session.sparkContext
        self.query_id = str(execution.id().toString())
        self.run_id = str(execution.runId().toString())
        self.checkpoint_root = str(execution.resolvedCheckpointRoot())
        self._read_file: ReadFile | None = None
        self._is_stateless: bool | None = None

    @property
    def is_stateless(self) -> bool:
        """Whether the query is known to keep no state. Its first micro-batch has to be over for that."""
        if self._is_stateless is None:
            progress = self._execution.lastProgress()
            if progress is None:
                return False
            self._is_stateless = len(progress.stateOperators()) == 0
        return self._is_stateless

    @property
    def trigger(self) -> str:
        """ProcessingTimeTrigger, AvailableNowTrigger, ContinuousTrigger …"""
        return str(self._execution.trigger().getClass().getSimpleName()).removesuffix("$")

    @property
    def tracks_progress_asynchronously(self) -> bool:
        return "AsyncProgressTracking" in str(self._execution.getClass().getSimpleName())

    @property
    def has_lasting_checkpoint(self) -> bool:
        """Whether the user named a checkpoint; Spark makes a temporary one otherwise."""
        field = self._jvm.java.lang.Class.forName(EXECUTION_CLASS).getDeclaredField("deleteCheckpointOnStop")
        field.setAccessible(True)
        return not field.get(self._execution)

    @property
    def is_active(self) -> bool:
        return bool(self._execution.isActive())

    def offsets(self, batch_id: int) -> BatchOffsets:
        """What the checkpoint says of a micro-batch. Raises CheckpointError."""
        if self._read_file is None:
            configuration = self._context._jsc.hadoopConfiguration()
            self._read_file = checkpoint_reader(self.checkpoint_root, self._jvm, configuration)
        return batch_offsets(self._read_file, batch_id)

    def sources(self) -> list[Source]:
        """The sources of the micro-batch that is running, in the order of the checkpoint's lines."""
        leaves = self._execution.lastExecution().logical().collectLeaves()
        return [_source(leaves.apply(number)) for number in range(leaves.size())]


def running_query(rows: DataFrame) -> RunningQuery:
    """The query that calls foreachBatch on this thread. Raises QueryError."""
    session = rows.sparkSession
    java_session = getattr(session, "_jsparkSession", None)
    if java_session is None:
        raise QueryError("exactly_once works in the driver's own process; over Spark Connect it cannot see the query")
    query_id = session.sparkContext.getLocalProperty(QUERY_ID_PROPERTY)
    if query_id is None:
        raise QueryError("exactly_once(...) is for writeStream.foreachBatch; this is not a streaming query")
    jvm: Any = session.sparkContext._jvm
    execution = java_session.sharedState().activeStreamingQueries().get(jvm.java.util.UUID.fromString(query_id))
    if execution is None:
        raise QueryError(f"query {query_id} is not running any more")
    return RunningQuery(execution, session)


def refuse(query: RunningQuery) -> None:
    """Raise QueryError for a query in which no sink could be exactly once."""
    if query.trigger in ("ContinuousTrigger", "RealTimeTrigger"):
        raise QueryError(
            f"the query has a {query.trigger}: it logs offsets after the output, so a micro-batch could not be told from "
            "its repetition. Use processingTime or availableNow"
        )
    if query.tracks_progress_asynchronously:
        raise QueryError(
            "asyncProgressTrackingEnabled is on: the offsets of a micro-batch may change when it is repeated. Turn it off"
        )
    if not query.has_lasting_checkpoint:
        raise QueryError(
            "the query has no checkpoint, so after a restart nothing says what was read. "
            'Set .option("checkpointLocation", ...)'
        )


def _source(leaf: Any) -> Source:
    """A leaf of the plan of a micro-batch: a scan between two offsets, or, for old sources, something else."""
    if not str(leaf.getClass().getSimpleName()).startswith("StreamingDataSourceV2"):
        return Source(None, None)
    start = leaf.startOffset()
    options = leaf.relation().options()
    return Source(
        servers=options.get(SERVERS_OPTION),
        start=str(start.get().json()) if start.isDefined() else None,
    )
