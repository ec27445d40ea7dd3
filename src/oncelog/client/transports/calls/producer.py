"""The calls of a producer that both APIs share: how it is made, and its transactions."""

from __future__ import annotations

import atexit
import logging
from abc import abstractmethod
from collections.abc import Mapping
from typing import Protocol
from weakref import WeakSet

from oncelog.client.net.settings import DEFAULT_RETRY, ClientSettings, RetryPolicy, parse_addresses
from oncelog.client.producer.core import ProducerCore
from oncelog.client.producer.partition_choice import Partitioner
from oncelog.client.producer.settings import RETRIES_MAX, producer_settings
from oncelog.client.transports.calls.call import Call, Calls
from oncelog.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from oncelog.security.values import PLAINTEXT, Security


class ProducerCalls(Calls):
    """The calls about a transaction wait for one another."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        acks: str | int = "all",
        enable_idempotence: bool | None = None,
        partitioner: str | Partitioner = "murmur2",
        linger_ms: float = 5,
        batch_bytes: int = 128 * 1024,
        buffer_bytes_max: int = 32 * 1024 * 1024,
        compression: str = "none",
        delivery_timeout_ms: float = 120_000,
        max_in_flight: int | None = None,
        retries: int = RETRIES_MAX,
        metadata_max_age_ms: float = 300_000,
        client_id: str = "oncelog",
        request_timeout_ms: float = 30_000,
        call_timeout_ms: float = 60_000,
        retry_backoff_ms: float = DEFAULT_RETRY.backoff_ms,
        retry_backoff_max_ms: float = DEFAULT_RETRY.backoff_max_ms,
        security: Security = PLAINTEXT,
    ) -> None:
        """A record waits up to `linger_ms` for others to share its batch of at most about `batch_bytes`.

        `send` waits while `buffer_bytes_max` are not written; a record that is not written within `delivery_timeout_ms`, or
        `retries` after its first attempt, fails. `max_in_flight` batches of a partition are sent before the first of them is
        acknowledged: 5 with idempotence, 1 without it, unless it is given. `compression` is none, gzip, snappy, lz4 or zstd.

        `acks` "all" waits for every replica, 1 for the leader; 0 waits for nothing, and no offset is known. Idempotence,
        and with it "once and in order", needs "all", and is on where that is: with 1 a record may be written twice, with 0
        it may be lost. `partitioner` is "murmur2" (the Java client's), "consistent_random" (librdkafka's), "sticky",
        "roundrobin" or a function of topic, key, value and PartitionsOfTopic. Where it has no opinion, as for records without
        a key, records go to one partition that has a leader, until that has been given `batch_bytes`, and then to the next.
        New partitions and leaders are found within `metadata_max_age_ms`.
        Raises ValueError for a value that is none, or that does not go with the others.
        """
        settings = producer_settings(
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            linger_ms=linger_ms,
            batch_bytes=batch_bytes,
            buffer_bytes_max=buffer_bytes_max,
            compression=compression,
            delivery_timeout_ms=delivery_timeout_ms,
            max_in_flight=max_in_flight,
            retries=retries,
            metadata_max_age_ms=metadata_max_age_ms,
            acks=acks,
            enable_idempotence=enable_idempotence,
            partitioner=partitioner,
        )
        super().__init__(
            ClientSettings(
                parse_addresses(bootstrap_servers, security),
                client_id=client_id,
                request_timeout_ms=request_timeout_ms,
                call_timeout_ms=call_timeout_ms,
                security=security,
                retry=RetryPolicy(retry_backoff_ms, retry_backoff_max_ms),
            )
        )
        self._core = ProducerCore(self._cluster, settings, self._changed)
        self._start()

    @Call
    async def init_transactions(self) -> None:
        """Take the transactional id from its owner before, and wait until that one's transaction has ended. Once."""
        await self._core.init()

    @Call
    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: str | GroupMetadata
    ) -> None:
        """Make a group's offsets part of the transaction.

        `group` is a consumer's `group_metadata()`, so that a consumer whose partitions others have by now is refused
        (KIP-447), or the name of a group without members. Raises TransactionFailed or ProducerFenced.
        """
        await self._core.commit_offsets(group, offsets)

    @abstractmethod
    def _start(self) -> None:
        """Get ready to send what is appended."""

    @abstractmethod
    def _changed(self) -> None:
        """Wake the calls that wait for the core. No flow runs at the same moment."""


logger = logging.getLogger("oncelog.client")


class LeftOpen(Protocol):
    def unwritten(self) -> int:
        """The number of records that would be lost if this process ended now."""
        ...


_producers: WeakSet[LeftOpen] = WeakSet()


def watch(producer: LeftOpen) -> None:
    """Have the end of the process say what the producer had not written by then."""
    if not _producers:
        atexit.unregister(_say_what_is_lost)
        atexit.register(_say_what_is_lost)
    _producers.add(producer)


def say_lost(count: int, why: str) -> None:
    """Log the loss: on standard error, unless the program has set up logging otherwise."""
    records = "1 record" if count == 1 else f"{count} records"
    logger.error("%s, and %s that it had not written may be lost", why, records)


def _say_what_is_lost() -> None:
    for producer in list(_producers):
        count = producer.unwritten()
        if count:
            say_lost(count, "the program has ended without closing a producer")
