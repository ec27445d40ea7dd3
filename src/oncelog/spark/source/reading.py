"""Reading one range of a partition in a task: raw batches from the broker, Arrow record batches to Spark."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from oncelog.client import Fetcher
from oncelog.client.consumer.fetching import FetchedBatches
from oncelog.client.errors import BrokerRefused, OffsetOutOfRange, RetriesExhausted
from oncelog.client.values import IsolationLevel
from oncelog.spark.options.source_options import ConnectionOptions, FetchOptions, SourceOptions
from oncelog.spark.source.client import open_client, open_fetcher
from oncelog.spark.source.errors import DataLossError, NoAnswerError, NoRecordsError
from oncelog.spark.source.planning import OffsetRange
from oncelog.spark.wait_log import WaitLog
from oncelog.wire import ErrorCode

logger = logging.getLogger("oncelog.spark")


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """What a task has to know to read."""

    connection: ConnectionOptions
    fetch: FetchOptions
    include_headers: bool
    fail_on_data_loss: bool


def read_settings(options: SourceOptions) -> ReadSettings:
    return ReadSettings(options.connection, options.fetch, options.include_headers, options.fail_on_data_loss)


_fetchers: dict[ReadSettings, Fetcher] = {}
"""Open connections, kept between the tasks that this worker process runs one after the other."""


def read_range(wanted: OffsetRange, settings: ReadSettings) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range in offset order. Offsets without a record, of markers or aborted data, are normal.

    Raises DataLossError when failOnDataLoss is set and the log does not reach from start to end, NoAnswerError when no
    broker answers, and NoRecordsError when one does and has nothing.
    """
    # Loads compiled code, which the processes that only plan a read do without.
    from oncelog.records.arrow import batches_to_arrow

    with WaitLog(f"no records of {wanted.partition} from {settings.connection.bootstrap_servers}") as wait:
        reading = _RangeReading(wanted, settings, wait)
        while (fetched := reading.fetch()) is not None:
            yield from batches_to_arrow(
                fetched.batches.chunks,
                wanted.partition.topic,
                wanted.partition.partition,
                fetched.start,
                wanted.end,
                fetched.batches.aborted,
                include_headers=settings.include_headers,
                read_committed=settings.fetch.isolation_level is IsolationLevel.READ_COMMITTED,
            )


@dataclass(frozen=True, slots=True)
class _Fetched:
    """Batches, and the offset they were asked for from. The first may hold records before it, which may be deleted."""

    batches: FetchedBatches
    start: int


class _RangeReading:
    def __init__(self, wanted: OffsetRange, settings: ReadSettings, wait: WaitLog) -> None:
        self._wanted = wanted
        self._settings = settings
        self._wait = wait
        self._position = wanted.start
        self._waited_since_ms = 0.0

    def fetch(self) -> _Fetched | None:
        """The next batches of the range; None at its end."""
        self._waited_since_ms = time.monotonic() * 1000
        self._wait.begin()
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
        """What the next answer has; None where the position has moved instead."""
        try:
            return self._asked()
        except RetriesExhausted as error:
            connection = self._settings.connection
            raise NoAnswerError(connection.bootstrap_servers, connection.api_timeout_ms, error) from error
        except BrokerRefused as refused:
            if refused.error is not ErrorCode.unknown_topic_or_partition:
                raise
            self._lose(f"{self._wanted.partition} is gone")
            self._position = self._wanted.end
            return None

    def _asked(self) -> FetchedBatches | None:
        fetcher = _fetchers.get(self._settings)
        if fetcher is None:
            fetcher = _fetchers[self._settings] = open_fetcher(self._settings.connection, self._settings.fetch)
        partition = self._wanted.partition
        try:
            fetched = fetcher.fetch(partition, self._position, end_offset=self._wanted.end)
        except OffsetOutOfRange:
            self._restart_after_loss()
            return None
        except BaseException:
            _fetchers.pop(self._settings).close()
            raise
        if not fetched.chunks and fetched.high_watermark < self._wanted.end and self._has_lost_its_end():
            return None
        return fetched

    def _has_lost_its_end(self) -> bool:
        """Ask where the log ends. A new leader names an earlier high watermark in a fetch until its followers have come."""
        partition, end = self._wanted.partition, self._wanted.end
        with open_client(self._settings.connection) as client:
            found = client.end_offsets(
                [partition], isolation_level=IsolationLevel.READ_UNCOMMITTED, at_least={partition: end}
            )[partition]
        if found >= end:
            return False
        self._lose(f"{partition} ends at offset {found}")
        self._position = end
        return True

    def _restart_after_loss(self) -> None:
        """Go on where the log now starts, if the user has said that records may be missing."""
        partition = self._wanted.partition
        self._lose(f"{partition} no longer has offset {self._position}")
        with open_client(self._settings.connection) as client:
            earliest = client.beginning_offsets([partition])[partition]
        self._position = self._wanted.end if earliest <= self._position else min(earliest, self._wanted.end)

    def _lose(self, what: str) -> None:
        if self._settings.fail_on_data_loss:
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
        if time.monotonic() * 1000 - self._waited_since_ms > self._settings.fetch.poll_timeout_ms:
            raise NoRecordsError(
                f"no records of {self._wanted.partition} from offset {self._position} came in "
                f"{self._settings.fetch.poll_timeout_ms} ms (kafkaConsumer.pollTimeoutMs); "
                f"its last stable offset is {last_stable_offset}"
            )
