"""Reading the ranges of a task: raw batches from the brokers, Arrow record batches to Spark."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from oncelog.client import Fetcher
from oncelog.client.consumer.readings import FetchedBatches
from oncelog.client.errors import BrokerRefused, OffsetOutOfRange, RetriesExhausted
from oncelog.client.values import IsolationLevel
from oncelog.spark.options.source_options import ConnectionOptions, FetchOptions, SourceOptions
from oncelog.spark.source.cluster import open_client
from oncelog.spark.source.errors import DataLossError, NoAnswerError, NoRecordsError
from oncelog.spark.source.planning import OffsetRange
from oncelog.spark.wait_log import WaitLog
from oncelog.wire import ErrorCode

logger = logging.getLogger("oncelog.spark")


AHEAD_PARTITIONS = 200
"""A task reads this many partitions at once: enough for a request to cost little beside its records."""

JOINED_BYTES = 1024 * 1024
"""Rows of many partitions become Arrow batches of about this size: each of them costs Spark as much as many rows."""

_fetchers: dict[tuple[ConnectionOptions, FetchOptions], Fetcher] = {}
"""Open connections, kept between the tasks that this worker process runs one after the other."""


def read_ranges(wanted: Sequence[OffsetRange], options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """Yield the records of ranges, one range after the other, each in offset order; no partition comes twice.

    The order is the same each time. Offsets without a record, of markers or aborted data, are normal.

    Raises DataLossError when failOnDataLoss is set and a log does not reach from start to end, NoAnswerError when no broker
    answers, and NoRecordsError when one does and has nothing.
    """
    rows = _rows(wanted, options)
    return rows if len(wanted) == 1 else _joined(rows)


def _rows(wanted: Sequence[OffsetRange], options: SourceOptions) -> Iterator[pa.RecordBatch]:
    # Loads compiled code, which the processes that only plan a read do without.
    from oncelog.records.arrow import batches_to_arrow

    with WaitLog(f"no records from {options.connection.bootstrap_servers}") as wait, _borrowed(options) as fetcher:
        for first in range(0, len(wanted), AHEAD_PARTITIONS):
            together = wanted[first : first + AHEAD_PARTITIONS]
            for part in together:
                fetcher.read(part.partition, part.start, end_offset=part.end)
            for part in together:
                reading = _RangeReading(part, options, fetcher, wait)
                while (fetched := reading.fetch()) is not None:
                    yield from batches_to_arrow(
                        fetched.batches.chunks,
                        part.partition.topic,
                        part.partition.partition,
                        fetched.start,
                        part.end,
                        fetched.batches.aborted,
                        include_headers=options.include_headers,
                        read_committed=options.fetch.isolation_level is IsolationLevel.READ_COMMITTED,
                    )
            _stop_all(fetcher)


def open_fetcher(connection: ConnectionOptions, fetch: FetchOptions) -> Fetcher:
    return Fetcher(
        connection.bootstrap_servers,
        client_id=connection.client_id,
        isolation_level=fetch.isolation_level,
        min_bytes=fetch.min_bytes,
        max_wait_ms=fetch.max_wait_ms,
        max_bytes=fetch.max_bytes,
        partition_bytes=fetch.partition_bytes,
        request_timeout_ms=connection.request_timeout_ms,
        connect_timeout_ms=connection.connect_timeout_ms,
        call_timeout_ms=connection.api_timeout_ms,
        security=connection.security,
    )


@contextmanager
def _borrowed(options: SourceOptions) -> Iterator[Fetcher]:
    """A fetcher for one task at a time. It is closed after an error."""
    fetcher = _fetchers.pop((options.connection, options.fetch), None) or open_fetcher(
        options.connection, options.fetch
    )
    try:
        yield fetcher
    except GeneratorExit:
        _give_back(options, fetcher)  # Spark has rows enough
        raise
    except BaseException:
        fetcher.close()
        raise
    _give_back(options, fetcher)


def _give_back(options: SourceOptions, fetcher: Fetcher) -> None:
    _stop_all(fetcher)
    if _fetchers.setdefault((options.connection, options.fetch), fetcher) is not fetcher:
        fetcher.close()


def _stop_all(fetcher: Fetcher) -> None:
    for partition in fetcher.partitions:
        fetcher.stop(partition)


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches."""
    waiting: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in batches:
        waiting.append(batch)
        size_bytes += batch.nbytes
        if size_bytes >= JOINED_BYTES:
            yield from _as_one(waiting)
            waiting, size_bytes = [], 0
    yield from _as_one(waiting)


def _as_one(batches: list[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    return batches if len(batches) < 2 else pa.Table.from_batches(batches).combine_chunks().to_batches()


@dataclass(frozen=True, slots=True)
class _Fetched:
    """Batches, and the offset they were asked for from. The first may hold records before it, which may be deleted."""

    batches: FetchedBatches
    start: int


class _RangeReading:
    """The position in one range. The task's next ranges are fetched meanwhile."""

    def __init__(self, wanted: OffsetRange, options: SourceOptions, fetcher: Fetcher, wait: WaitLog) -> None:
        self._wanted = wanted
        self._options = options
        self._fetcher = fetcher
        self._wait = wait
        self._position = wanted.start
        self._waited_since_ms = 0.0

    def fetch(self) -> _Fetched | None:
        """The next batches of the range; None at its end."""
        self._waited_since_ms = time.monotonic() * 1000
        self._wait.begin(f"no records of {self._wanted.partition} from {self._options.connection.bootstrap_servers}")
        try:
            return self._next()
        finally:
            self._wait.end()

    def _next(self) -> _Fetched | None:
        while self._position < self._wanted.end:
            start = self._position
            fetched = self._fetch()
            if fetched is None:
                continue
            if fetched.chunks:
                self._position = fetched.next_offset
                return _Fetched(fetched, start)
            self._check_patience(fetched.last_stable_offset)
        return None

    def _fetch(self) -> FetchedBatches | None:
        """The batches of the next answer; None where the position has moved instead."""
        try:
            fetched = self._fetcher.take(self._wanted.partition)
        except RetriesExhausted as error:
            connection = self._options.connection
            raise NoAnswerError(connection.bootstrap_servers, connection.api_timeout_ms, error) from error
        except OffsetOutOfRange:
            self._restart_after_loss()
            return None
        except BrokerRefused as refused:
            if refused.error is not ErrorCode.unknown_topic_or_partition:
                raise
            self._lose(f"{self._wanted.partition} is gone")
            self._go_to(self._wanted.end)
            return None
        if not fetched.chunks and fetched.high_watermark < self._wanted.end and self._has_lost_its_end():
            return None
        return fetched

    def _has_lost_its_end(self) -> bool:
        """Ask where the log ends. A new leader names an earlier high watermark in a fetch until its followers have come."""
        partition, end = self._wanted.partition, self._wanted.end
        with open_client(self._options.connection) as client:
            found = client.end_offsets(
                [partition], isolation_level=IsolationLevel.READ_UNCOMMITTED, at_least={partition: end}
            )[partition]
        if found >= end:
            return False
        self._lose(f"{partition} ends at offset {found}")
        self._go_to(end)
        return True

    def _restart_after_loss(self) -> None:
        """Continue where the log now starts, if failOnDataLoss is off."""
        partition = self._wanted.partition
        self._lose(f"{partition} no longer has offset {self._position}")
        with open_client(self._options.connection) as client:
            earliest = client.beginning_offsets([partition])[partition]
        self._go_to(self._wanted.end if earliest <= self._position else min(earliest, self._wanted.end))

    def _go_to(self, position: int) -> None:
        self._position = position
        self._fetcher.stop(self._wanted.partition)
        if position < self._wanted.end:
            self._fetcher.read(self._wanted.partition, position, end_offset=self._wanted.end)

    def _lose(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{what}, and {self._wanted.start} to {self._wanted.end} are to be read: records were deleted, or the "
                "topic was made anew. failOnDataLoss=false goes on without them"
            )
        logger.warning(
            "oncelog: %s, and %s to %s were to be read; what is gone is left out",
            what,
            self._wanted.start,
            self._wanted.end,
        )

    def _check_patience(self, last_stable_offset: int) -> None:
        if time.monotonic() * 1000 - self._waited_since_ms > self._options.fetch.poll_timeout_ms:
            raise NoRecordsError(
                f"no records of {self._wanted.partition} from offset {self._position} came in "
                f"{self._options.fetch.poll_timeout_ms} ms (kafkaConsumer.pollTimeoutMs); "
                f"its last stable offset is {last_stable_offset}"
            )
