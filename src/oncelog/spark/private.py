"""The only module that uses Spark's private parts. Another release of Spark may break it.

Seen to hold for PySpark 4.0.5, 4.1.4, 4.2.1 and 4.3.0: `make compatibility` runs with each. Until 4.0 the classes of a query were
in the package `execution.streaming`, since 4.1 in `execution.streaming.runtime`, so none is named by its package.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.udf import _wrap_function

SCAN, OLD_SOURCE = "StreamingDataSourceV2ScanRelation", "StreamingExecutionRelation"
"""The two kinds of leaf in a query's plan that are sources, of Spark's present and its first interface for them."""
TEMPORARY_CHECKPOINT = "deleteCheckpointOnStop"
STATE_VALIDATION = "shouldValidateStateStoreCommit"
"""Since 4.1 Spark checks after a micro-batch that its tasks have written state."""


def has_own_jvm(session: Any) -> bool:
    """True for a session in the driver's process. Sessions of Spark Connect are not."""
    return getattr(session, "_jsparkSession", None) is not None


def jvm(session: Any) -> Any:
    """Java's packages, as py4j shows them."""
    return session.sparkContext._jvm


def hadoop_configuration(session: Any) -> Any:
    return session.sparkContext._jsc.hadoopConfiguration()


def task_slots(context: Any) -> int:
    """The number of tasks that fit into the present executors."""
    java_context = context._jsc.sc()
    return int(java_context.maxNumConcurrentTasks(java_context.resourceProfileManager().defaultResourceProfile()))


def analyzed_plan(rows: DataFrame) -> Any:
    """The logical plan of a DataFrame, a tree of Java objects."""
    return rows._jdf.queryExecution().analyzed()


def items(sequence: Any) -> Iterator[Any]:
    """The items of a Scala sequence."""
    return (sequence.apply(number) for number in range(sequence.size()))


def kind(java: Any) -> str:
    """The name of a Java object's class, without its package."""
    return str(java.getClass().getSimpleName()).removesuffix("$")


def sessions() -> list[SparkSession]:
    """The sessions of this process that Spark itself would go on with: the thread's, and the last one that was made."""
    if SparkContext._active_spark_context is None:
        return []
    found = (SparkSession.getActiveSession(), SparkSession._instantiatedSession)
    return [session for session in found if session is not None]


def register_source(session: Any, source: type[DataSource]) -> None:
    """Make a source in Python known to a session that does not know it.

    `session.dataSource.register` refuses it where the session that is active in this thread is another one, and knows it.
    """
    sources = session._jsparkSession.sessionState().dataSourceManager()
    if not sources.dataSourceExists(source.name()):
        context = session.sparkContext
        registered = context._jvm.org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource
        sources.registerDataSource(source.name(), registered(_wrap_function(context, source)))


def has_context() -> bool:
    return SparkContext._active_spark_context is not None


def end_session() -> tuple[Any, str]:
    """Stop the session; return the process of its JVM, which ends when its input is closed, and its class path.

    The next session starts another JVM.
    """
    context, gateway = SparkContext._active_spark_context, SparkContext._gateway
    assert context is not None
    assert gateway is not None
    class_path = str(gateway.jvm.System.getProperty("java.class.path"))
    context.stop()
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    return gateway.proc, class_path


class StreamExecution:
    """A streaming query that runs, as Java has it."""

    def __init__(self, java: Any) -> None:
        self._java = java
        self.query_id = str(java.id().toString())
        self.run_id = str(java.runId().toString())
        name = java.name()
        self.name = None if name is None else str(name)

    @property
    def checkpoint_root(self) -> str:
        return str(self._java.resolvedCheckpointRoot())

    @property
    def kind(self) -> str:
        return kind(self._java)

    @property
    def trigger(self) -> str:
        return kind(self._java.trigger())

    @property
    def is_active(self) -> bool:
        return bool(self._java.isActive())

    @property
    def state_operators(self) -> int | None:
        """The number of operators that keep state; None before the first micro-batch is over."""
        progress = self._java.lastProgress()
        return None if progress is None else len(progress.stateOperators())

    @property
    def has_temporary_checkpoint(self) -> bool:
        """True if Spark removes the checkpoint at the end, as it does where the user named none."""
        declaring = self._java.getClass()
        while TEMPORARY_CHECKPOINT not in {field.getName() for field in declaring.getDeclaredFields()}:
            declaring = declaring.getSuperclass()
        field = declaring.getDeclaredField(TEMPORARY_CHECKPOINT)
        field.setAccessible(True)
        return bool(field.get(self._java))

    def setting(self, name: str, default: str) -> str:
        """A setting of the query's session, which its checkpoint may have set."""
        return str(self._java.sparkSessionForStream().conf().get(name, default))

    def source_leaves(self) -> list[Any]:
        """The leaves of the query's plan that are sources."""
        leaves = items(self._java.logicalPlan().collectLeaves())
        return [leaf for leaf in leaves if kind(leaf) in (SCAN, OLD_SOURCE)]

    def scans(self) -> list[Any]:
        """The sources in the plan of the running micro-batch: those with new data."""
        return [leaf for leaf in items(self._java.lastExecution().logical().collectLeaves()) if is_scan(leaf)]

    def advance_watermark(self) -> int:
        """Take the event times of the computed micro-batch, and return the watermark after it, in ms.

        Spark does the same when foreachBatch returns, with the same result.
        """
        tracker = self._java.watermarkTracker()
        tracker.updateWatermark(self._java.lastExecution().executedPlan())
        return int(tracker.currentWatermark())

    def set_watermark(self, watermark_ms: int) -> None:
        self._java.watermarkTracker().setWatermark(watermark_ms)

    def allow_unwritten_state(self) -> None:
        """Do not complain that no task of the micro-batch that is running has written state."""
        reporter = self._java.progressReporter()
        if STATE_VALIDATION in dir(reporter):
            reporter.shouldValidateStateStoreCommit().set(False)


def is_scan(leaf: Any) -> bool:
    return kind(leaf) == SCAN


def running_execution(session: Any, query_id: str) -> Any:
    """The Java object of a query that runs in this driver; None where none of that id does."""
    running = session._jsparkSession.sharedState().activeStreamingQueries()
    return running.get(jvm(session).java.util.UUID.fromString(query_id))
