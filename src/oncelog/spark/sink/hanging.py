"""A transaction that its coordinator has ended, and that is still open in a partition or in a group.

A coordinator may pass over a partition without writing its marker. Apache Kafka 4 does so when the partition has no leader
at that moment, or when the coordinator has just started and does not know the leader yet (KAFKA-20734). Committed records are
then held back there, and readers do not see all of them.

The next marker of the producer id ends the hanging transaction, even if the marker is for another one. If the one that hangs was
aborted and the next one is committed, records of both are read; if it is the other way round, records are lost. So the sink
checks a partition before it adds it to a transaction, and stops where one hangs: later every end would write a marker there.
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.client import (
    BrokerRefused,
    Client,
    OffsetAndMetadata,
    ProducerIdentity,
    RetriesExhausted,
    TopicPartition,
    UnsupportedVersion,
)
from oncelog.coordination.internal_topics import partition_for
from oncelog.wire import ErrorCode

CHAPTER = 'docs/spark.md has "When a transaction hangs"'
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"


class HangingTransaction(Exception):
    """Not all committed records are visible: continuing could repeat or lose records. Nothing was written."""


class CheckedPartitions:
    """The partitions in which no transaction of a transactional id hangs, each with the leader epoch under which it was checked.

    DescribeProducers (KIP-664) lists the transactions that are open in a partition; a read of stable offsets finds one in a group.
    Neither tells a transaction that hangs from one that is ending. So only the owner of the id may check, and only when its
    coordinator has no transaction open.

    A partition without a leader gets its next one under another leader epoch (KIP-101), and so does the partition in which a
    coordinator keeps its state, when another one takes over or the same one starts again. So nothing has to be checked
    again while these leader epochs stay the same and every transaction was committed: an aborted one may have left records
    behind that arrive late. The epochs are those of the last Metadata, which each micro-batch asks for anyway.

    Not found are:

    - A marker that is passed over after that Metadata and before the next transaction, which may be in the first moments
      after an end. The next transaction then ends the hanging one. It commits it, which is right; but if its first attempt is
      aborted, the records of the one before are lost in that partition.
    - A marker that a deposed leader has and its successor has not, until Metadata tells of the successor.
    - For a user who may not describe the coordinators' topics, a marker that was passed over in a partition that kept its
      leader.
    - Before KIP-890 (Kafka 3.6), a batch of an aborted attempt that arrives after the check.
    - Transactions that hang in partitions that are not written any more.
    """

    def __init__(self, client: Client, transactional_id: str, group: str) -> None:
        self._client = client
        self._transactional_id = transactional_id
        self._group = group
        self._producer_ids: set[int] = set()
        self._leader_epochs: dict[TopicPartition, int] = {}
        self._coordinators: tuple[TopicPartition, ...] = ()
        self._knows_group = False

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics whose leader epochs have to be known, besides those that are written."""
        return tuple(partition.topic for partition in self._coordinators)

    def writes_as(self, identity: ProducerIdentity) -> None:
        """Add a producer id whose transactions are looked for: one whose epochs are used up is followed by another."""
        self._producer_ids.add(identity.producer_id)

    def forget(self) -> None:
        """Check everything again: a transaction was aborted, or nobody knows how it ended."""
        self._leader_epochs.clear()
        self._knows_group = False

    def are_known(self, partitions: Iterable[TopicPartition], *, with_offsets: bool) -> bool:
        """True if nothing has to be checked before these partitions are written, with offsets of the group or without."""
        if with_offsets and not self._knows_group:
            return False
        return not self._changed([*self._coordinators, *partitions])

    def check_all(self, partitions: Iterable[TopicPartition], offsets: Iterable[TopicPartition]) -> None:
        """Check partitions, and the group's offsets of others. Raises what `check` and `committed` raise.

        A user who may not describe the coordinators' topics reads the group's offsets whenever another leader has changed.
        """
        written, expected = sorted(partitions), list(offsets)
        self._client.metadata({*self.topics, *(partition.topic for partition in written)}, wanted=written)
        changed = self._changed(self._coordinators)
        if changed:
            self.forget()
            self._leader_epochs |= changed
        self.check(written)
        if expected and not (self._knows_group and OFFSETS_TOPIC in self.topics):
            self.committed(expected)

    def check(self, partitions: Iterable[TopicPartition]) -> None:
        """Raise HangingTransaction if a transaction of the id is open in one of these partitions.

        A topic that this user may not read, and a cluster before Kafka 2.8, do not say.
        """
        changed = self._changed(partitions)
        for topic in sorted({partition.topic for partition in changed}):
            self._check_topic({partition for partition in changed if partition.topic == topic})
        self._leader_epochs |= changed

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """All offsets that the group has committed, once none is pending. Raises what `stable_offsets` raises."""
        found = stable_offsets(self._client, self._group, partitions)
        # After that request, which makes the topic of the offsets in a new cluster.
        self._find_coordinators()
        self._knows_group = True
        return found

    def _changed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The partitions that were not checked under their present leader epoch, which an old cluster does not tell."""
        present = {partition: self._client.leader_epoch(partition) for partition in partitions}
        known = self._leader_epochs
        return {partition: epoch for partition, epoch in present.items() if known.get(partition) != epoch}

    def _find_coordinators(self) -> None:
        """Find out in which partitions the coordinators of the id and the group keep their state, if this user may know."""
        keys = {OFFSETS_TOPIC: self._group, TRANSACTIONS_TOPIC: self._transactional_id}
        self._coordinators = tuple(
            TopicPartition(name, partition_for(keys[name], len(topic.partitions)))
            for name, topic in self._client.metadata(keys).items()
            if topic.error is ErrorCode.none
        )
        self._leader_epochs |= self._changed(self._coordinators)

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
                if state.producer_id in self._producer_ids and state.transaction_start_offset >= 0:
                    raise HangingTransaction(
                        f"a transaction of {self._transactional_id!r} has ended and is still open in {partition.topic}-"
                        f"{partition.partition}, from offset {state.transaction_start_offset} on, where readers wait for "
                        f"it: its marker is missing there. {CHAPTER}"
                    )


def stable_offsets(
    client: Client, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """All offsets that a group has committed, once none is pending in these partitions and in those with an offset.

    Asked for all partitions of a group, Kafka names only those that have an offset already, not one whose first is pending.
    Raises HangingTransaction where one stays pending; BrokerRefused, RetriesExhausted.
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
