"""Reading one range of a partition in a task: raw batches from the broker, Arrow record batches to Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from oncelog.client import Client, Fetcher
from oncelog.client.errors import OffsetOutOfRange
from oncelog.client.fetching import FetchedBatches
from oncelog.client.values import IsolationLevel
from oncelog.spark.options import SourceOptions
from oncelog.spark.planning import OffsetRange

FETCH_WAIT_MS = 100
PARTITION_BYTES = 4 * 1024 * 1024


class DataLossError(Exception):
    """Records that should be read are not there any more."""


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """What a task has to know to read."""

    bootstrap_servers: str
    client_id: str
    isolation_level: IsolationLevel
    include_headers: bool
    fail_on_data_loss: bool
    poll_timeout_ms: int
    fetch_bytes_max: int
    fetch_wait_ms_max: int


def read_settings(options: SourceOptions) -> ReadSettings:
    return ReadSettings(
        bootstrap_servers=options.bootstrap_servers,
        client_id=options.client_id,
        isolation_level=options.isolation_level,
        include_headers=options.include_headers,
        fail_on_data_loss=options.fail_on_data_loss,
        poll_timeout_ms=options.poll_timeout_ms,
        fetch_bytes_max=PARTITION_BYTES if options.fetch_bytes_max is None else options.fetch_bytes_max,
        fetch_wait_ms_max=FETCH_WAIT_MS if options.fetch_wait_ms_max is None else options.fetch_wait_ms_max,
    )


_fetchers: dict[ReadSettings, Fetcher] = {}
"""Open connections, kept between the tasks that this worker process runs one after the other."""


def read_range(wanted: OffsetRange, settings: ReadSettings) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range in offset order. Offsets without a record, of markers or aborted data, are normal.

    Raises DataLossError when failOnDataLoss is set and the log does not reach from start to end.
    """
    # Loads compiled code, which the processes that only plan a read do without.
    from oncelog.records.arrow import batches_to_arrow

    reading = _RangeReading(wanted, settings)
    while (fetched := reading.fetch()) is not None:
        yield from batches_to_arrow(
            fetched.chunks,
            wanted.partition.topic,
            wanted.partition.partition,
            wanted.start,
            wanted.end,
            fetched.aborted,
            include_headers=settings.include_headers,
            read_committed=settings.isolation_level is IsolationLevel.READ_COMMITTED,
        )


class _RangeReading:
    def __init__(self, wanted: OffsetRange, settings: ReadSettings) -> None:
        self._wanted = wanted
        self._settings = settings
        self._position = wanted.start
        self._waited_since_ms = time.monotonic() * 1000

    def fetch(self) -> FetchedBatches | None:
        """The next batches of the range; None at its end."""
        while self._position < self._wanted.end:
            fetched = self._fetch()
            if fetched is None:
                continue
            if fetched.chunks:
                self._position = fetched.next_offset
                self._waited_since_ms = time.monotonic() * 1000
                return fetched
            if fetched.high_watermark < self._wanted.end:
                self._lose(f"{self._wanted.partition} ends at offset {fetched.high_watermark}")
                return None
            self._check_patience(fetched.last_stable_offset)
        return None

    def _fetch(self) -> FetchedBatches | None:
        fetcher = _fetchers.get(self._settings) or _fetchers.setdefault(self._settings, _open(self._settings))
        partition = self._wanted.partition
        try:
            return fetcher.fetch(partition, self._position, end_offset=self._wanted.end)
        except OffsetOutOfRange:
            self._restart_after_loss()
            return None
        except BaseException:
            _fetchers.pop(self._settings).close()
            raise

    def _restart_after_loss(self) -> None:
        """Go on where the log now starts, if the user has said that records may be missing."""
        partition = self._wanted.partition
        self._lose(f"{partition} no longer has offset {self._position}")
        with Client(self._settings.bootstrap_servers, client_id=self._settings.client_id) as client:
            earliest = client.beginning_offsets([partition])[partition]
        self._position = self._wanted.end if earliest <= self._position else min(earliest, self._wanted.end)

    def _lose(self, what: str) -> None:
        if self._settings.fail_on_data_loss:
            raise DataLossError(
                f"{what}, and {self._wanted.start} to {self._wanted.end} are to be read: records were deleted, or the "
                "topic was made anew. failOnDataLoss=false goes on without them"
            )

    def _check_patience(self, last_stable_offset: int) -> None:
        if time.monotonic() * 1000 - self._waited_since_ms > self._settings.poll_timeout_ms:
            raise TimeoutError(
                f"no records of {self._wanted.partition} from offset {self._position} came in "
                f"{self._settings.poll_timeout_ms} ms; its last stable offset is {last_stable_offset}"
            )


def _open(settings: ReadSettings) -> Fetcher:
    return Fetcher(
        settings.bootstrap_servers,
        client_id=settings.client_id,
        isolation_level=settings.isolation_level,
        max_wait_ms=settings.fetch_wait_ms_max,
        partition_bytes=settings.fetch_bytes_max,
        call_timeout_ms=settings.poll_timeout_ms,
    )
