"""The blocking fetcher: partitions as raw record batches, read ahead."""

from __future__ import annotations

from collections import deque

from oncelog.client.consumer.fetching import MIB, Fetches, FetchSettings
from oncelog.client.consumer.readings import FetchedBatches
from oncelog.client.net.flows import ConnectionUse
from oncelog.client.net.settings import DEFAULT_RETRY, ClientSettings, RetryPolicy, parse_addresses
from oncelog.client.transports.blocking.client import BlockingBase
from oncelog.client.values import IsolationLevel, TopicPartition
from oncelog.security.values import PLAINTEXT, Security


class Fetcher(BlockingBase):
    """Reads partitions as bytes, over connections of its own. For one thread at a time."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        client_id: str = "oncelog",
        isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
        min_bytes: int = 1,
        max_wait_ms: int = 500,
        max_bytes: int = 50 * MIB,
        partition_bytes: int = 4 * MIB,
        request_timeout_ms: float = 30_000,
        connect_timeout_ms: float = 10_000,
        call_timeout_ms: float = 60_000,
        retry_backoff_ms: float = DEFAULT_RETRY.backoff_ms,
        retry_backoff_max_ms: float = DEFAULT_RETRY.backoff_max_ms,
        security: Security = PLAINTEXT,
    ) -> None:
        """A broker answers when `min_bytes` are there or `max_wait_ms` are over.

        An answer has at most about `partition_bytes` of each partition and `max_bytes` in all; one batch may be larger.
        """
        super().__init__(
            ClientSettings(
                parse_addresses(bootstrap_servers, security),
                client_id=client_id,
                request_timeout_ms=request_timeout_ms,
                connect_timeout_ms=connect_timeout_ms,
                call_timeout_ms=call_timeout_ms,
                security=security,
                retry=RetryPolicy(retry_backoff_ms, retry_backoff_max_ms),
            )
        )
        # It asks for nothing else meanwhile, so one connection to a broker does.
        self._fetches = Fetches(
            self._cluster,
            FetchSettings(isolation_level, min_bytes, max_wait_ms, max_bytes, partition_bytes),
            ConnectionUse.PROMPT,
        )
        self._answers: deque[FetchedBatches] = deque()

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        return self._fetches.partitions

    def read(self, partition: TopicPartition, offset: int, *, end_offset: int | None = None) -> None:
        """Have `poll` read a partition from an offset; with `end_offset`, nothing is asked for at or beyond it."""
        self._answers = deque(answer for answer in self._answers if answer.partition != partition)
        self._fetches.read(partition, offset, end_offset)

    def stop(self, partition: TopicPartition) -> None:
        self._answers = deque(answer for answer in self._answers if answer.partition != partition)
        self._fetches.stop(partition)

    def poll(self, timeout_ms: float = 1000) -> list[FetchedBatches]:
        """The next answer for the partitions being read; empty if none comes in time.

        A partition without new records is in the list too, with no chunks. Raises OffsetOutOfRange, BrokerRefused or
        RetriesExhausted.
        """
        if not self._answers:
            self._run(self._take_answers(timeout_ms))
        nothing: deque[FetchedBatches] = deque()
        # No function is called from here on: a signal's handler that raises does so before, and leaves the answers here.
        answers, self._answers = self._answers, nothing
        return [*answers]

    def take(self, partition: TopicPartition) -> FetchedBatches:
        """The next answer of one of the partitions being read; more of it is asked for before this returns.

        Answers of the others are kept until they are taken, too, about twice `max_bytes` of each broker at most. There are
        no chunks when no record came within the fetcher's `max_wait_ms`. Raises OffsetOutOfRange, BrokerRefused or
        RetriesExhausted. Where a signal's handler has raised, `read` has to say where to go on: what was taken may be lost.
        """
        return self._run(self._fetches.next_of(partition, self._settings.call_timeout_ms))

    def fetch(self, partition: TopicPartition, offset: int, *, end_offset: int | None = None) -> FetchedBatches:
        """Read one partition, and no other, from an offset; the answer after it is asked for before this returns.

        There are no chunks when no record came within the fetcher's `max_wait_ms`. Raises OffsetOutOfRange,
        BrokerRefused or RetriesExhausted.
        """
        if end_offset is not None and offset >= end_offset:
            raise ValueError(f"there is nothing to fetch of {partition} from offset {offset} to {end_offset}")
        if not self._fetches.is_reading_at(partition, offset, end_offset):
            for other in self._fetches.partitions:
                self.stop(other)
            self.read(partition, offset, end_offset=end_offset)
        return self.take(partition)

    async def _take_answers(self, timeout_ms: float) -> None:
        self._answers = await self._fetches.next(timeout_ms)
