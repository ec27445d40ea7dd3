"""Two ways between topics and DataFrames: ours, and Spark's own Kafka connector with the settings that suit it best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from bench.connector_jars import connector_jars
from bench.measure import Side
from oncelog.spark import exactly_once


class Connector(Protocol):
    def session_settings(self) -> Mapping[str, str]:
        """What a session needs to have it."""
        ...

    def read(self, session: SparkSession, topic: str) -> DataFrame: ...

    def read_stream(self, session: SparkSession, topic: str, *, batch_records: int | None) -> DataFrame: ...

    def start(self, rows: DataFrame, topic: str, checkpoint: str, **trigger: Any) -> Any:
        """Start the query that writes to a topic."""
        ...


class OncelogConnector:
    """The source and the exactly-once sink, with the settings they have by themselves."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers

    def session_settings(self) -> Mapping[str, str]:
        return {}

    def read(self, session: SparkSession, topic: str) -> DataFrame:
        return _subscribed(session.read.format("oncelog"), self._bootstrap_servers, topic).load()

    def read_stream(self, session: SparkSession, topic: str, *, batch_records: int | None) -> DataFrame:
        return _streaming(session.readStream.format("oncelog"), self._bootstrap_servers, topic, batch_records).load()

    def start(self, rows: DataFrame, topic: str, checkpoint: str, **trigger: Any) -> Any:
        sink = exactly_once(topic=topic, transactional_id=topic, bootstrap_servers=self._bootstrap_servers)
        query = rows.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
        return query.trigger(**trigger).start()


class JvmConnector:
    """At least once: what it writes again after a failure is there twice."""

    SOURCE_SETTINGS: Mapping[str, str] = {"kafka.max.poll.records": "10000", "kafka.fetch.max.wait.ms": "5"}
    SINK_SETTINGS: Mapping[str, str] = {"kafka.batch.size": "131072", "kafka.linger.ms": "5"}

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers

    def session_settings(self) -> Mapping[str, str]:
        return {"spark.jars": ",".join(map(str, connector_jars()))}

    def read(self, session: SparkSession, topic: str) -> DataFrame:
        reader = session.read.format("kafka").options(**self.SOURCE_SETTINGS)
        return _subscribed(reader, self._bootstrap_servers, topic).load()

    def read_stream(self, session: SparkSession, topic: str, *, batch_records: int | None) -> DataFrame:
        reader = session.readStream.format("kafka").options(**self.SOURCE_SETTINGS)
        return _streaming(reader, self._bootstrap_servers, topic, batch_records).load()

    def start(self, rows: DataFrame, topic: str, checkpoint: str, **trigger: Any) -> Any:
        writer = rows.writeStream.format("kafka").options(**self.SINK_SETTINGS).option("topic", topic)
        writer = writer.option("kafka.bootstrap.servers", self._bootstrap_servers)
        return writer.option("checkpointLocation", checkpoint).trigger(**trigger).start()


def connector(side: Side, bootstrap_servers: str) -> Connector:
    return OncelogConnector(bootstrap_servers) if side is Side.OURS else JvmConnector(bootstrap_servers)


def _subscribed(reader: Any, bootstrap_servers: str, topic: str) -> Any:
    return reader.option("kafka.bootstrap.servers", bootstrap_servers).option("subscribe", topic)


def _streaming(reader: Any, bootstrap_servers: str, topic: str, batch_records: int | None) -> Any:
    subscribed = _subscribed(reader, bootstrap_servers, topic).option("startingOffsets", "earliest")
    return subscribed if batch_records is None else subscribed.option("maxOffsetsPerTrigger", batch_records)
