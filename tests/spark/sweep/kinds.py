"""The kinds of query that the sweep stops everywhere. Each reads `RECORDS`, some `FEWER` too, in several micro-batches.

A record's value is a number: its place, and its event time in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

KEYS = 5
COUNT = 60
OFFSETS_MAX = 20
END = 1000
"""The event time that closes every window."""
RECORDS = [(f"k{number % KEYS}", str(number)) for number in [*range(COUNT), END]]
FEWER = [(key, number) for key, number in RECORDS if int(number) % 3]
"""What topic b has: some records of topic a have no partner there."""

NEXT = [(f"k{number}", str(2 * END)) for number in range(KEYS)]
"""What comes later, to both topics, and closes everything that was open."""

A, B = "a", "b"
ROCKS_DB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}


class Readers:
    """Makes streaming DataFrames of key, value and at. `far` is another cluster.

    One task reads both partitions of topic a; those of topic b have a task each.
    """

    def __init__(self, spark: Any, servers: str, far_servers: str) -> None:
        self.spark = spark
        self._servers, self._far_servers = servers, far_servers

    def __call__(self, topics: str, *, far: bool = False) -> Any:
        options = {
            "kafka.bootstrap.servers": self._far_servers if far else self._servers,
            "subscribe": topics,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(OFFSETS_MAX),
            **({"maxPartitions": "1"} if topics == A else {}),
        }
        rows = self.spark.readStream.format("oncelog").options(**options).load()
        return rows.selectExpr(
            "cast(key as string) key",
            "cast(value as string) value",
            "timestamp_seconds(cast(cast(value as string) as long)) at",
        )


Build = Callable[[Readers], Any]


@dataclass(frozen=True)
class Kind:
    """A query. `far` says whether topic b is on another cluster."""

    name: str
    build: Build
    output_mode: str = "append"
    settings: dict[str, str] = field(default_factory=dict)
    far: bool = False


def copied(read: Readers) -> Any:
    return read(A).selectExpr("key", "upper(value) value")


def closed_windows(read: Readers) -> Any:
    counts = read(A).withWatermark("at", "5 seconds").groupBy(F.window("at", "10 seconds"), "key").count()
    return counts.selectExpr("key", "concat(unix_timestamp(window.start), ':', count) value")


def totals(read: Readers) -> Any:
    return read(A).groupBy("key").count().selectExpr("key", "cast(count as string) value")


def static_join(read: Readers) -> Any:
    names = read.spark.createDataFrame(
        [(f"k{number}", f"name-{number}") for number in range(KEYS)], "key string, name string"
    )
    return names.join(read(A), "key").selectExpr("name key", "value")


def _pairs(read: Readers, how: str) -> Any:
    left = read(A).withWatermark("at", "5 seconds").selectExpr("key", "value", "at")
    right = read(B).withWatermark("at", "5 seconds").selectExpr("key other_key", "value other", "at other_at")
    near = F.expr("key = other_key and other_at between at - interval 5 seconds and at + interval 5 seconds")
    return left.join(right, near, how).selectExpr("key", "concat(value, '+', coalesce(other, 'none')) value")


def pairs(read: Readers) -> Any:
    return _pairs(read, "inner")


def pairs_or_none(read: Readers) -> Any:
    return _pairs(read, "left_outer")


def without_duplicates(read: Readers) -> Any:
    return read(A).selectExpr("key", "cast(cast(value as int) div 10 as string) value").dropDuplicates(["key", "value"])


def without_duplicates_for_a_while(read: Readers) -> Any:
    return read(A).withWatermark("at", "15 seconds").dropDuplicatesWithinWatermark(["key"]).select("key", "value")


def _count_in_pandas(key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    seen = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
    state.update((seen,))
    yield pd.DataFrame({"key": [key[0]], "value": [str(seen)]})


def counted_in_pandas(read: Readers) -> Any:
    grouped = read(A).select("key", "value").groupBy("key")
    return grouped.applyInPandasWithState(
        _count_in_pandas, "key string, value string", "seen long", "update", "NoTimeout"
    )


class Counter(StatefulProcessor):
    """Counts the records of each key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._seen = handle.getValueState("seen", "seen long")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        seen = (self._seen.get()[0] if self._seen.exists() else 0) + sum(len(frame) for frame in rows)
        self._seen.update((seen,))
        yield pd.DataFrame({"key": [key[0]], "value": [str(seen)]})

    def close(self) -> None:
        return


def counted_by_a_processor(read: Readers) -> Any:
    grouped = read(A).select("key", "value").groupBy("key")
    return grouped.transformWithStateInPandas(Counter(), "key string, value string", "Update", "None")


def two_topics(read: Readers) -> Any:
    return read(f"{A},{B}").select("key", "value")


def two_sources(read: Readers) -> Any:
    return read(A).select("key", "value").unionByName(read(B).select("key", "value"))


def two_clusters(read: Readers) -> Any:
    return read(A).select("key", "value").unionByName(read(B, far=True).select("key", "value"))


KINDS = [
    Kind("map", copied),
    Kind("windows, append", closed_windows),
    Kind("windows, update", closed_windows, "update"),
    Kind("windows, complete", closed_windows, "complete"),
    Kind("totals, update", totals, "update"),
    Kind("totals, complete", totals, "complete"),
    Kind("stream-static join", static_join),
    Kind("stream-stream join", pairs),
    Kind("stream-stream outer join", pairs_or_none),
    Kind("dropDuplicates", without_duplicates),
    Kind("dropDuplicatesWithinWatermark", without_duplicates_for_a_while),
    Kind("applyInPandasWithState", counted_in_pandas, "update"),
    Kind("transformWithState", counted_by_a_processor, "update", ROCKS_DB),
    Kind("two topics", two_topics),
    Kind("several sources", two_sources),
    Kind("sources on two clusters", two_clusters, far=True),
]
