"""The asyncio consumer: partitions as records, from positions that the caller sets."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.client.consumer_core import ConsumedRecord, ConsumerCore
from oncelog.client.fetching import MIB, FetchSettings
from oncelog.client.settings import ClientSettings, parse_addresses
from oncelog.client.transports.asynchronous.base import AsyncBase
from oncelog.client.values import IsolationLevel, OffsetSpec, TopicPartition

RECORDS_MAX = 10_000


class AsyncConsumer(AsyncBase):
    """Reads the partitions it is told to, and is a member of no group. For one task at a time."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
        reset: OffsetSpec | None = OffsetSpec.EARLIEST,
        include_control: bool = False,
        min_bytes: int = 1,
        max_wait_ms: int = 500,
        max_bytes: int = 50 * MIB,
        partition_bytes: int = MIB,
        client_id: str = "oncelog",
        request_timeout_ms: float = 30_000,
        call_timeout_ms: float = 60_000,
    ) -> None:
        """`reset` says where to go on when a position is not in the log; None makes that an OffsetOutOfRange.

        With `include_control`, the ends of transactions are records too. For the others see Consumer.
        """
        super().__init__(
            ClientSettings(
                parse_addresses(bootstrap_servers),
                client_id=client_id,
                request_timeout_ms=request_timeout_ms,
                call_timeout_ms=call_timeout_ms,
            )
        )
        self._core = ConsumerCore(
            self._cluster,
            FetchSettings(isolation_level, min_bytes, max_wait_ms, max_bytes, partition_bytes),
            reset=reset,
            include_control=include_control,
        )

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return self._core.assignment

    async def assign(self, partitions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions and no others, from offsets or from where an OffsetSpec says.

        Raises BrokerRefused or RetriesExhausted.
        """
        await self._run(self._core.assign(partitions))

    async def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on elsewhere: at an offset, or where an OffsetSpec says. Raises BrokerRefused or RetriesExhausted."""
        await self._run(self._core.seek({partition: offset}))

    def position(self, partition: TopicPartition) -> int:
        """The offset at which `poll` goes on; offsets without a record to hand out are behind it."""
        return self._core.position(partition)

    async def poll(self, timeout_ms: float = 1000, *, records_max: int = RECORDS_MAX) -> list[ConsumedRecord]:
        """Records as soon as there are any; an empty list when none came in time.

        Raises OffsetOutOfRange, BrokerRefused or RetriesExhausted.
        """
        return await self._run(self._core.poll(timeout_ms, records_max))
