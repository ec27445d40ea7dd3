"""One micro-batch, one transaction: its records and what is committed with them together, or nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from oncelog.client import (
    BrokerRefused,
    Client,
    ClientError,
    OffsetAndMetadata,
    OutcomeUnknown,
    ProducerFenced,
    ProducerIdentity,
    TopicPartition,
    TransactionalIdExpired,
    TransactionFailed,
)
from oncelog.client.producer.producing import EPOCH_MAX
from oncelog.client.transports.blocking.shared_producer import SharedProducer
from oncelog.spark.sink.delivery import BatchDelivery, BatchDeliveryFailed, DeliveryChanged, Producing, difference
from oncelog.spark.sink.fence import FenceError
from oncelog.spark.sink.hanging import CheckedPartitions
from oncelog.spark.sink.settings import SinkSettings
from oncelog.wire import ErrorCode

TOO_LARGE = frozenset({ErrorCode.message_too_large, ErrorCode.record_list_too_large})


class AttemptsExhausted(Exception):
    """Every transaction of a micro-batch had to be aborted. Nothing of it is in the log; the last cause is attached."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The commit of a micro-batch."""

    attempts: int
    transaction_ms: float
    identity: ProducerIdentity


def open_producer(settings: SinkSettings) -> SharedProducer:
    return SharedProducer(
        settings.bootstrap_servers,
        settings.transactional_id,
        timeout_ms=settings.transaction_timeout_ms,
        client_id=settings.client_id,
        request_timeout_ms=settings.request_timeout_ms,
        call_timeout_ms=settings.call_timeout_ms,
        security=settings.security,
    )


class SinkTransactions:
    """The transactions of one transactional id while this driver owns it."""

    def __init__(self, settings: SinkSettings, client: Client) -> None:
        """Take the transactional id: when this returns, the producer before is fenced and its open transaction has ended."""
        self._settings = settings
        self.checked = CheckedPartitions(client, settings.transactional_id, settings.group_id)
        self._read: Mapping[TopicPartition, OffsetAndMetadata] = {}
        self._is_confirmed = True
        self._producer = open_producer(settings)
        try:
            self.checked.writes_as(self._producer.init())
        except BaseException:
            self._producer.close()
            raise

    @property
    def identity(self) -> ProducerIdentity:
        return self._producer.identity

    def close(self) -> None:
        self._producer.close()

    def confirm(self, read: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Have the next transaction check that the group had committed no more than was read."""
        self._read, self._is_confirmed = read, False

    def commit(
        self,
        delivery: BatchDelivery,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        is_wanted: Callable[[], bool],
    ) -> Committed:
        """Send a micro-batch and commit it with the offsets; after a failure abort and try again, a few times.

        Raises ProducerFenced when another driver has taken over, TransactionalIdExpired, and OutcomeUnknown when nobody knows
        whether the transaction was committed: none may be answered with another attempt. Raises BrokerRefused for what another
        attempt would not change, FenceError when more was committed than was read, DeliveryChanged when the micro-batch
        has to be encoded anew, AttemptsExhausted when no attempt worked, HangingTransaction where an earlier one of the id
        hangs. `is_wanted` says whether the query still runs.

        Nothing to send and nothing to commit is no transaction: a coordinator refuses to end an empty one.
        """
        if not delivery.counts and not offsets:
            return Committed(0, 0.0, self._producer.identity)
        for attempt in range(1, self._settings.attempts + 1):
            started_ms = time.monotonic() * 1000
            identity = self._next_identity(delivery.written, offsets)
            try:
                self._attempt(delivery, offsets, identity)
            except BrokerRefused as refused:
                # Left open, it would keep what others write to these topics from read_committed readers.
                with suppress(ClientError):
                    self._producer.end(commit=False)
                raise with_advice(refused) from None
            except (BatchDeliveryFailed, TransactionFailed) as error:
                # On TV2 the answer to this tells a timeout from a takeover: after a takeover it raises ProducerFenced.
                self._producer.end(commit=False)
                if isinstance(error, DeliveryChanged) or not is_wanted():
                    raise
                if attempt == self._settings.attempts:
                    raise AttemptsExhausted(
                        f"{attempt} transactions were aborted; the last one because {error}"
                    ) from error
            except (ProducerFenced, TransactionalIdExpired, OutcomeUnknown):
                raise
            except Exception:
                with suppress(ClientError):
                    self._producer.end(commit=False)
                raise
            else:
                return Committed(attempt, time.monotonic() * 1000 - started_ms, identity)
        raise AssertionError("attempts is greater than 0")

    def _next_identity(
        self, written: list[TopicPartition], offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> ProducerIdentity:
        """The identity for the next transaction. Raises HangingTransaction before anything is part of that transaction.

        A coordinator that has forgotten the transactional id refuses no epoch of it: it gives out another producer id (KIP-360).
        Another producer may have had the id meanwhile, committed, and been forgotten too: that raises TransactionalIdExpired.
        """
        before = self._producer.identity
        are_known = self.checked.are_known(written, with_offsets=bool(offsets))
        identity = self._producer.bump() if are_known else self._producer.await_end()
        if identity.producer_id != before.producer_id and before.epoch < EPOCH_MAX:
            raise TransactionalIdExpired(
                f"transactional id {self._settings.transactional_id!r} was forgotten by its coordinator"
            )
        if not are_known:
            self.checked.check_all(written, offsets)
        self.checked.writes_as(identity)
        return identity

    def _attempt(
        self,
        delivery: BatchDelivery,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        identity: ProducerIdentity,
    ) -> None:
        version = self._producer.transaction_version
        producing = Producing(self._settings, self._settings.transactional_id, identity, version)
        try:
            encoded = delivery.counts
            if encoded:
                self._producer.add_partitions(delivery.written)
                problem = difference(encoded, delivery.send(producing))
                if problem is not None:
                    raise DeliveryChanged(problem)
            if offsets:
                self._commit_offsets(offsets)
            self._producer.end(commit=True)
        except BaseException:
            self.checked.forget()
            raise

    def _commit_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Make offsets part of the transaction; the first time, check the earlier read of the group.

        A deposed coordinator may have answered that read, without the offsets that were committed since.
        """
        group = self._settings.group_id
        if self._is_confirmed:
            self._producer.commit_offsets(group, offsets)
            return
        found = self._producer.commit_offsets_and_read(group, offsets)
        if has_changed(self._read, found):
            raise FenceError(
                f"group {group!r} has committed more than its coordinator said at first, which leads no more: nothing was "
                "written. Start the query again"
            )
        self._is_confirmed = True


def has_changed(
    read: Mapping[TopicPartition, OffsetAndMetadata], found: Mapping[TopicPartition, OffsetAndMetadata]
) -> bool:
    """True if the committed offsets of any of these partitions differ from those that were read before."""
    return any(read.get(partition) != committed for partition, committed in found.items())


def with_advice(refused: BrokerRefused) -> BrokerRefused:
    """The refusal of a transaction's request; any that needs no advice as it is."""
    if refused.error not in TOO_LARGE:
        return refused
    return BrokerRefused(
        refused.error,
        f"{refused.message}: a record batch is larger than the topic's max.message.bytes; raise that, or set "
        "batch_bytes_max (kafka.batch.size) below it",
    )
