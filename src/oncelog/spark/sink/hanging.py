"""A transaction that its coordinator has ended, and that is still open in a partition or in a group.

A coordinator may pass over a partition without writing its marker. Apache Kafka 4 does so when the partition has no leader
at that moment (KAFKA-20734), for example while a broker starts again after a crash. What was committed is then held back
there, and what is read as committed is not all of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.client import (
    BrokerRefused,
    Client,
    OffsetAndMetadata,
    RetriesExhausted,
    TopicPartition,
    UnsupportedVersion,
)
from oncelog.wire import ErrorCode

CHAPTER = 'docs/spark.md has "When a transaction hangs"'


class HangingTransaction(Exception):
    """What was committed is not all to be seen: to go on could repeat or lose records. Nothing was written."""


class SettledPartitions:
    """The partitions in which no transaction of a transactional id hangs. Each is looked at once.

    Only who has taken the id may ask: until then its last transaction may be ending.
    """

    def __init__(self, client: Client, transactional_id: str, producer_id: int) -> None:
        self._client = client
        self._transactional_id = transactional_id
        self._producer_id = producer_id
        self._known: set[TopicPartition] = set()

    def check(self, partitions: Iterable[TopicPartition]) -> None:
        """Raise HangingTransaction if a transaction of the id is open in one of these partitions.

        A topic that this user may not read, and a cluster before Kafka 2.8, do not say.
        """
        new = set(partitions) - self._known
        for topic in sorted({partition.topic for partition in new}):
            self._check_topic({partition for partition in new if partition.topic == topic})
        self._known |= new

    def _check_topic(self, partitions: set[TopicPartition]) -> None:
        try:
            producers = self._client.describe_producers(sorted(partitions))
        except UnsupportedVersion:
            return
        except BrokerRefused as refused:
            if refused.error is ErrorCode.topic_authorization_failed:
                return
            raise
        for partition, states in sorted(producers.items()):
            for state in states:
                if state.producer_id == self._producer_id and state.transaction_start_offset >= 0:
                    raise HangingTransaction(
                        f"a transaction of {self._transactional_id!r} has ended and is still open in {partition.topic}-"
                        f"{partition.partition}, from offset {state.transaction_start_offset} on, where readers wait for "
                        f"it: its marker is missing there. {CHAPTER}"
                    )


def stable_offsets(
    client: Client, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """All that a group has committed, once nothing is pending in these partitions and in those with an offset.

    Asked for all of its partitions, Kafka names only those that have an offset: the first one, while it is pending, it
    passes over in silence. Raises HangingTransaction where something stays pending; BrokerRefused, RetriesExhausted.
    """
    try:
        expected = list(partitions)
        if expected:
            client.committed_offsets(group, expected, require_stable=True)
        return client.committed_offsets(group, require_stable=True)
    except RetriesExhausted as exhausted:
        cause = exhausted.__cause__
        if isinstance(cause, BrokerRefused) and cause.error is ErrorCode.unstable_offset_commit:
            raise HangingTransaction(
                f"group {group!r} has offsets in a transaction that does not end: one that is open under another "
                f"transactional id, or one whose marker is missing. {CHAPTER}"
            ) from None
        raise
