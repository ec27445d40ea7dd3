"""What tests of subscribers share: records to read, reading until something is so, and what callbacks were told."""

from __future__ import annotations

import time

import pytest

from oncelog.client import CommitFailed, OffsetAndMetadata, Producer, TopicPartition, TransactionFailed

PARTITIONS = 4
QUICK = {"heartbeat_interval_ms": 100, "metadata_max_age_ms": 200, "max_wait_ms": 100}
KIP_848 = {"group_protocol": "consumer", "metadata_max_age_ms": 200, "max_wait_ms": 100}
"""How often a member of this protocol speaks is the broker's to say."""


class Told:
    """What the callbacks of a subscriber were called with."""

    def __init__(self) -> None:
        self.assigned: list[frozenset[TopicPartition]] = []
        self.revoked: list[frozenset[TopicPartition]] = []
        self.lost: list[frozenset[TopicPartition]] = []

    @property
    def callbacks(self):
        return {
            "on_assigned": self.assigned.append,
            "on_revoked": self.revoked.append,
            "on_lost": self.lost.append,
        }


def write(log, topic, number, start=0):
    with Producer(log.bootstrap_servers) as producer:
        for value in range(start, start + number):
            producer.send(topic, b"%d" % value, partition=value % PARTITIONS)
        producer.flush()


def poll_until(is_so, *consumers, timeout_seconds=30):
    """Poll in turn until it is so; return the values that came, each as (partition, number)."""
    deadline = time.monotonic() + timeout_seconds
    values = []
    while not is_so(values):
        assert time.monotonic() < deadline, "it did not come about"
        for consumer in consumers:
            values += [(record.partition, int(record.value)) for record in consumer.poll(50)]
    return values


def partitions(topic, *numbers):
    return frozenset(TopicPartition(topic, number) for number in numbers or range(PARTITIONS))


def does_not_poll(log, face, topic, options):
    """A member of a group stops polling: it loses its partitions to the other, and may not commit."""
    told = Told()
    with (
        face.consumer(log.bootstrap_servers, max_poll_interval_ms=1500, **options) as away,
        face.consumer(log.bootstrap_servers, **options) as other,
    ):
        away.subscribe([topic], **told.callbacks)
        poll_until(lambda _: away.assignment, away)
        stale = away.group_metadata()
        other.subscribe([topic])
        poll_until(lambda _: other.assignment == partitions(topic), other)
        assert told.revoked == told.lost == []
        with pytest.raises(CommitFailed):
            away.commit({TopicPartition(topic, 0): OffsetAndMetadata(1)})
        with pytest.raises(CommitFailed):
            away.group_metadata()
        with face.producer(log.bootstrap_servers, transactional_id=topic) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"1", partition=0)
            with pytest.raises(TransactionFailed):
                producer.send_offsets_to_transaction({TopicPartition(topic, 0): OffsetAndMetadata(1)}, stale)
            producer.abort_transaction()
        poll_until(lambda _: told.lost, away)
        assert told.lost == [partitions(topic)]
        # On a busy machine it may be away once more, meanwhile.
        poll_until(lambda _: len(away.assignment) == len(other.assignment) == 2, away, other)
        assert other.committed() == {}
