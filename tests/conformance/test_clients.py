"""What a Kafka client, whichever it is, does with transactions: the same scenarios on our broker, on Apache Kafka, and on a
cluster of ours.

Absence is never waited for: a scenario ends with a record that is committed after everything else, and a reader that
got it has seen all there is.
"""

from __future__ import annotations

import pytest

from harness.conformance.clients import (
    CODECS,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    ClientUnderTest,
    FencedError,
    TransactionalProducer,
)
from harness.processes import BrokerProcess
from harness.shared_producer import until

pytestmark = [pytest.mark.drawn(8), pytest.mark.on_a_cluster]
END = "the end"
BOTH = (READ_COMMITTED, READ_UNCOMMITTED)


def values(client: ClientUnderTest, log: BrokerProcess, topic: str, isolation: str, partition: int = 0) -> list[str]:
    """The values a reader of this isolation level gets before the record that ends the scenario."""
    seen = client.read(log.bootstrap_servers, isolation, topic, partition, END)
    return [record.value for record in seen[:-1]]


def started(client: ClientUnderTest, log: BrokerProcess, transactional_id: str, codec: str = "none"):
    producer = client.producer(log.bootstrap_servers, transactional_id, codec)
    producer.init()
    return producer


def transaction(producer: TransactionalProducer, topic: str, *sent: str, commit: bool, partition: int = 0) -> None:
    producer.begin()
    for value in sent:
        producer.send(topic, partition, "key", value)
    producer.flush()
    if commit:
        producer.commit()
    else:
        producer.abort()


@pytest.mark.parametrize("codec", CODECS)
def test_idempotent_producer_with_a_codec_is_read_back_as_it_was_sent(client, log, new_topic, codec):
    """Offsets without a gap, and key, value and header byte for byte, whatever the batches were compressed with."""
    topic = new_topic(partitions=2)
    producer = client.producer(log.bootstrap_servers, codec=codec)
    sent = [(f"key {n}", f"value {n} " + "x" * (n % 50), f"header {n}") for n in range(200)] + [("k", END, "h")]
    for key, value, header in sent:
        producer.send(topic, 1, key, value, header)
    producer.flush()
    for isolation in BOTH:
        seen = client.read(log.bootstrap_servers, isolation, topic, 1, END)
        assert [(one.key, one.value, one.header) for one in seen] == sent
        assert [one.offset for one in seen] == list(range(len(sent)))
    assert client.end_offset(log.bootstrap_servers, READ_COMMITTED, topic, 1) == len(sent)
    assert client.end_offset(log.bootstrap_servers, READ_COMMITTED, topic, 0) == 0
    producer.close()


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_producer_with_any_acks_is_read_back_in_order(client, log, new_topic, acks):
    """With acks=0 it is not told; what it has sent is there all the same."""
    topic = new_topic()
    producer = client.producer(log.bootstrap_servers, acks=acks)
    sent = [*map(str, range(50)), END]
    for value in sent:
        producer.send(topic, 0, "key", value)
    producer.flush()
    assert values(client, log, topic, READ_COMMITTED) == sent[:-1]
    producer.close()


def test_transaction_over_several_topics_appears_whole_once_it_is_committed(client, log, new_topic, unique):
    topics = [new_topic(partitions=2) for _ in range(3)]
    places = [(topic, partition) for topic in topics for partition in (0, 1)]
    producer = started(client, log, f"several-{unique}", "lz4")
    producer.begin()
    for topic, partition in places:
        for number in range(20):
            producer.send(topic, partition, str(number), f"{topic} {partition} {number}")
    producer.flush()
    for topic, partition in places:
        assert client.end_offset(log.bootstrap_servers, READ_UNCOMMITTED, topic, partition) == 20
        assert client.end_offset(log.bootstrap_servers, READ_COMMITTED, topic, partition) == 0
    for topic, partition in places:
        producer.send(topic, partition, "", END)
    producer.commit()
    for topic, partition in places:
        for isolation in BOTH:
            expected = [f"{topic} {partition} {number}" for number in range(20)]
            assert values(client, log, topic, isolation, partition) == expected
    producer.close()


def test_aborted_records_are_seen_by_read_uncommitted_only(client, log, new_topic, unique):
    topic = new_topic()
    producer = started(client, log, f"abort-{unique}")
    transaction(producer, topic, "one", "two", commit=True)
    transaction(producer, topic, "lost", "lost too", commit=False)
    transaction(producer, topic, "three", END, commit=True)
    assert values(client, log, topic, READ_COMMITTED) == ["one", "two", "three"]
    assert values(client, log, topic, READ_UNCOMMITTED) == ["one", "two", "lost", "lost too", "three"]
    producer.close()


def test_many_transactions_in_a_row_leave_only_the_committed_ones(client, log, new_topic, unique):
    topic = new_topic()
    producer = started(client, log, f"row-{unique}")
    for number in range(20):
        transaction(producer, topic, f"{number} a", f"{number} b", commit=number % 3 != 1)
    transaction(producer, topic, END, commit=True)
    kept = [f"{number} {part}" for number in range(20) if number % 3 != 1 for part in "ab"]
    assert values(client, log, topic, READ_COMMITTED) == kept
    assert len(values(client, log, topic, READ_UNCOMMITTED)) == 40
    producer.close()


def test_interleaved_transactions_of_two_producers_are_told_apart(client, log, new_topic, unique):
    """The aborted transactions of one producer hide nothing of another's that lies between their records."""
    topic = new_topic()
    keeper, loser = (started(client, log, f"{name}-{unique}") for name in ("keeper", "loser"))
    keeper.begin()
    loser.begin()
    for number in range(5):
        keeper.send(topic, 0, "k", f"kept {number}")
        keeper.flush()
        loser.send(topic, 0, "k", f"lost {number}")
        loser.flush()
    keeper.commit()
    assert client.end_offset(log.bootstrap_servers, READ_COMMITTED, topic, 0) <= 1, "held back by the open transaction"
    loser.abort()
    transaction(keeper, topic, END, commit=True)
    assert values(client, log, topic, READ_COMMITTED) == [f"kept {number}" for number in range(5)]
    assert len(values(client, log, topic, READ_UNCOMMITTED)) == 10
    keeper.close()
    loser.close()


def test_second_producer_fences_the_first_and_aborts_its_transaction(client, log, new_topic, unique):
    """KIP-98: a new session of a transactional id fences the old one, and what it left open is aborted."""
    topic = new_topic()
    first = started(client, log, f"fenced-{unique}")
    transaction(first, topic, "before", commit=True)
    first.begin()
    first.send(topic, 0, "k", "zombie")
    first.flush()
    second = started(client, log, f"fenced-{unique}")
    transaction(second, topic, "after", commit=True)
    with pytest.raises(FencedError):
        first.commit()
    transaction(second, topic, END, commit=True)
    assert values(client, log, topic, READ_COMMITTED) == ["before", "after"]
    assert values(client, log, topic, READ_UNCOMMITTED) == ["before", "zombie", "after"]
    first.close()
    second.close()


def test_offsets_in_a_transaction_are_the_groups_once_it_is_committed(client, log, new_topic, unique):
    source, target, group = new_topic(), new_topic(), f"group-{unique}"
    producer = started(client, log, f"offsets-{unique}")
    assert client.committed_offset(log.bootstrap_servers, group, source, 0) == -1
    for offset, commit in ((7, True), (8, False), (9, True)):
        producer.begin()
        producer.send(target, 0, "k", f"up to {offset}")
        producer.send_offset(group, source, 0, offset)
        producer.flush()
        if commit:
            producer.commit()
        else:
            producer.abort()
        wait_for_offset(client, log, group, source, offset if commit else 7)
    transaction(producer, target, END, commit=True)
    assert values(client, log, target, READ_COMMITTED) == ["up to 7", "up to 9"]
    producer.close()


def wait_for_offset(client: ClientUnderTest, log: BrokerProcess, group: str, topic: str, offset: int) -> None:
    """The answer to a commit may come before its marker is in the group's partition."""
    until(lambda: client.committed_offset(log.bootstrap_servers, group, topic, 0) == offset)


def test_transaction_of_offsets_alone_is_committed(client, log, new_topic, unique):
    source, group = new_topic(), f"group-{unique}"
    producer = started(client, log, f"only-offsets-{unique}")
    producer.begin()
    producer.send_offset(group, source, 0, 4711)
    producer.commit()
    wait_for_offset(client, log, group, source, 4711)
    producer.close()


def test_producer_that_comes_back_after_a_clean_close_goes_on(client, log, new_topic, unique):
    topic = new_topic()
    for number in range(3):
        producer = started(client, log, f"back-{unique}")
        transaction(producer, topic, str(number), commit=True)
        producer.close()
    producer = started(client, log, f"back-{unique}")
    transaction(producer, topic, END, commit=True)
    assert values(client, log, topic, READ_COMMITTED) == ["0", "1", "2"]
    producer.close()
