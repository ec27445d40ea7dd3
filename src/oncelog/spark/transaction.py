"""One micro-batch, one transaction: its records and the input's offsets together, or nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oncelog.client import OffsetAndMetadata, ProducerIdentity, TopicPartition, TransactionFailed
from oncelog.client.transports.blocking.shared_producer import SharedProducer
from oncelog.spark.delivery import Delivery, DeliveryChanged, DeliveryFailed, Producing
from oncelog.spark.sink_settings import SinkSettings
from oncelog.spark.tally import difference


class AttemptsExhausted(Exception):
    """Every transaction of a micro-batch had to be aborted. Nothing of it is in the log; the last cause is attached."""


@dataclass(frozen=True, slots=True)
class Committed:
    """How a micro-batch was committed."""

    attempts: int
    transaction_ms: float
    identity: ProducerIdentity


def open_producer(settings: SinkSettings) -> SharedProducer:
    return SharedProducer(
        settings.bootstrap_servers,
        settings.transactional_id,
        timeout_ms=settings.transaction_timeout_ms,
        client_id=settings.client_id,
        call_timeout_ms=settings.call_timeout_ms,
    )


class Transactions:
    """The transactions of one transactional id, as long as this driver owns it."""

    def __init__(self, settings: SinkSettings) -> None:
        """Take the transactional id: whoever had it is fenced, and their open transaction ended, when this returns."""
        self._settings = settings
        self._producer = open_producer(settings)
        try:
            self._producer.init()
        except BaseException:
            self._producer.close()
            raise

    @property
    def identity(self) -> ProducerIdentity:
        return self._producer.identity

    def close(self) -> None:
        self._producer.close()

    def commit(
        self,
        delivery: Delivery,
        partitions: tuple[TopicPartition, ...],
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        is_wanted: Callable[[], bool],
    ) -> Committed:
        """Send a micro-batch and commit it with the offsets; after a failure abort and try again, a few times.

        Raises ProducerFenced when another driver has taken over, OutcomeUnknown when nobody knows whether the
        transaction was committed: neither may be answered with another attempt. Raises DeliveryChanged when the
        micro-batch has to be encoded anew, AttemptsExhausted when no attempt worked. `is_wanted` says whether the
        query still runs.
        """
        for attempt in range(1, self._settings.attempts + 1):
            started_ms = time.monotonic() * 1000
            identity = self._producer.bump()
            try:
                self._attempt(delivery, partitions, offsets, identity)
            except (DeliveryFailed, TransactionFailed) as error:
                # On TV2 the answer to this tells a timeout from a takeover: after a takeover it raises ProducerFenced.
                self._producer.end(commit=False)
                if isinstance(error, DeliveryChanged) or not is_wanted():
                    raise
                if attempt == self._settings.attempts:
                    raise AttemptsExhausted(
                        f"{attempt} transactions were aborted; the last one because {error}"
                    ) from error
            else:
                return Committed(attempt, time.monotonic() * 1000 - started_ms, identity)
        raise AssertionError("attempts is greater than 0")

    def _attempt(
        self,
        delivery: Delivery,
        partitions: tuple[TopicPartition, ...],
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        identity: ProducerIdentity,
    ) -> None:
        producing = Producing(
            self._settings.bootstrap_servers,
            self._settings.transactional_id,
            self._settings.client_id,
            identity,
            self._producer.transaction_version,
        )
        encoded = delivery.counts
        if encoded:
            self._producer.add_partitions([partitions[target] for target in encoded])
            problem = difference(encoded, delivery.send(producing))
            if problem is not None:
                raise DeliveryChanged(problem)
        self._producer.commit_offsets(self._settings.group_id, offsets)
        self._producer.end(commit=True)
