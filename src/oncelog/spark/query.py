"""The streaming query that calls the sink: its id, its sources and its checkpoint.

Nothing can be written exactly once over Spark Connect, which is refused before anything starts. The function of foreachBatch runs
in a process of the server's there. It gets rows and a number, and sees neither the query's checkpoint nor its offsets, so it
cannot tell a micro-batch from its repetition. The source works over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pickle import PickleError
from typing import Any

from pyspark.sql import SparkSession

from oncelog.client.security import PLAINTEXT, Security
from oncelog.spark import private
from oncelog.spark.checkpoint import BatchOffsets, CheckpointFiles, batch_offsets, checkpoint_files, has_state_of
from oncelog.spark.options.security_options import PREFIX, security_of
from oncelog.spark.private import StreamExecution, has_own_jvm, is_scan

QUERY_ID_PROPERTY = "sql.streaming.queryId"
STATE_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
SERVERS_OPTION = "kafka.bootstrap.servers"


class QueryError(Exception):
    """The sink cannot work in this query. The message says why, and what to change."""


@dataclass(frozen=True, slots=True)
class Source:
    """One source of a query, and how its cluster is reached. `servers` is None unless it reads Kafka topics."""

    servers: str | None
    security: Security = PLAINTEXT


class RunningQuery(StreamExecution):
    """One run of a streaming query, as seen from inside foreachBatch."""

    def __init__(self, java: Any, session: Any) -> None:
        super().__init__(java)
        self._session = session
        self._opened: CheckpointFiles | None = None
        self._is_stateless: bool | None = None

    @property
    def is_stateless(self) -> bool:
        """True if the query is known to keep no state: known once its first micro-batch is over."""
        if self._is_stateless is None:
            operators = self.state_operators
            if operators is None:
                return False
            self._is_stateless = operators == 0
        return self._is_stateless

    @property
    def tracks_progress_asynchronously(self) -> bool:
        return "AsyncProgressTracking" in self.kind

    def offsets(self, batch_id: int) -> BatchOffsets:
        """The offsets of a micro-batch from the checkpoint. Raises CheckpointError."""
        return batch_offsets(self._files, batch_id)

    @property
    def _files(self) -> CheckpointFiles:
        if self._opened is None:
            configuration = private.hadoop_configuration(self._session)
            self._opened = checkpoint_files(self.checkpoint_root, private.jvm(self._session), configuration)
        return self._opened

    def sources(self) -> list[Source]:
        """The sources of the query, in the order of the checkpoint's lines.

        They come from the query: the plan of a micro-batch leaves out sources without new data.
        """
        return [_source(leaf) if is_scan(leaf) else Source(None) for leaf in self.source_leaves()]

    def starts(self) -> list[str | None]:
        """The start of each source in the running micro-batch; None where its plan does not say."""
        running = self.scans()
        return [_start(leaf, running) if is_scan(leaf) else None for leaf in self.source_leaves()]

    def keep_state(self, watermark_ms: int) -> None:
        """Continue as if the running micro-batch had been computed: its state is in the checkpoint.

        Spark would otherwise complain that no task has written state.
        """
        self.set_watermark(watermark_ms)
        self.allow_unwritten_state()

    def has_state_of(self, batch_id: int) -> bool:
        """True if the checkpoint has the whole state after a micro-batch, under names that tell its version."""
        names_tell = self.setting(STATE_FORMAT, "1") == "1"
        return names_tell and has_state_of(self._files, batch_id)


def running_query(session: SparkSession) -> RunningQuery:
    """The query that calls foreachBatch on this thread. Raises QueryError."""
    query_id = session.sparkContext.getLocalProperty(QUERY_ID_PROPERTY)
    if query_id is None:
        raise QueryError("exactly_once(...) is for writeStream.foreachBatch; this is not a streaming query")
    execution = private.running_execution(session, query_id)
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
    if query.has_temporary_checkpoint:
        raise QueryError(
            "the query has no checkpoint, so after a restart nothing says what was read. "
            'Set .option("checkpointLocation", ...)'
        )


def _source(leaf: Any) -> Source:
    options = leaf.relation().options()
    servers = options.get(SERVERS_OPTION)
    if servers is None:
        return Source(None)
    names = [str(name) for name in options.keySet().toArray() if str(name).startswith(PREFIX)]
    return Source(str(servers), security_of({name: str(options.get(name)) for name in names}))


def _start(leaf: Any, running: list[Any]) -> str | None:
    starts = [one.startOffset() for one in running if one.stream() == leaf.stream()]
    return str(starts[0].get().json()) if starts and starts[0].isDefined() else None


VARIABLES = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
"""Either of them makes PySpark start sessions over Spark Connect."""

REMOTE_SETTING = "spark.remote"

SENTENCE = (
    "exactly once needs a session in the driver's own process, and over Spark Connect neither a query's checkpoint nor its "
    "offsets can be seen: run the program with spark-submit or with a master, without SPARK_REMOTE and builder.remote(...)"
)


class SparkConnectError(QueryError, PickleError):
    """The session is one of Spark Connect. A PickleError, too, since PySpark replaces the message of any other error that a
    function raises while it is sent to the server.
    """

    def __init__(self) -> None:
        super().__init__(SENTENCE)


def refuse_connect(session: object) -> None:
    """Raise SparkConnectError for a session that has no JVM of its own."""
    if not has_own_jvm(session):
        raise SparkConnectError


def refuse_remote(environment: Mapping[str, str], settings: Mapping[str, str]) -> None:
    """Raise SparkConnectError where the next session would be one of Spark Connect."""
    if REMOTE_SETTING in settings or any(environment.get(name) for name in VARIABLES):
        raise SparkConnectError
