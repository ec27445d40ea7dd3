"""The open transaction of a transactional id, aborted in its producer's place: on our broker, Apache Kafka and a cluster."""

from __future__ import annotations

import pytest

from harness.waiting import until
from oncelog.client import (
    BrokerRefused,
    Client,
    Consumer,
    IsolationLevel,
    OutcomeUnknown,
    Producer,
    ProducerFenced,
    TopicPartition,
    TransactionEnd,
)
from oncelog.wire import ErrorCode

pytestmark = pytest.mark.on_a_cluster


@pytest.fixture
def producer(log, topic):
    """It has written one record in a transaction, under the name of the topic, and has not ended it."""
    with Producer(log.bootstrap_servers, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"value", partition=0).result()
        yield producer


@pytest.fixture
def client(log, face):
    with face.client(log.bootstrap_servers) as client:
        yield client


def committed_values(log, topic):
    """All that readers of committed records see, once nothing holds them back."""
    place = TopicPartition(topic, 0)

    def ends(isolation_level):
        return client.end_offsets([place], isolation_level=isolation_level)[place]

    found = []
    with Client(log.bootstrap_servers) as client, Consumer(log.bootstrap_servers) as consumer:
        until(lambda: ends(IsolationLevel.READ_COMMITTED) == ends(IsolationLevel.READ_UNCOMMITTED))
        consumer.assign({place: 0})
        while consumer.position(place) < ends(IsolationLevel.READ_COMMITTED):
            found += consumer.poll(100)
    return [record.value for record in found]


def test_open_transaction_is_aborted_and_its_producer_fenced(client, producer, log, topic):
    before = client.describe_transactions([topic])[topic]
    ended = client.abort_transaction(topic, start_ms=before.start_ms)
    assert (ended.end, ended.is_complete, ended.is_fenced) == (TransactionEnd.ABORTED, True, True)
    assert ended.description.state == "CompleteAbort"
    assert ended.description.producer_epoch > before.producer_epoch
    with pytest.raises(ProducerFenced):
        producer.abort_transaction()
    place = TopicPartition(topic, 0)
    end = client.end_offsets([place], isolation_level=IsolationLevel.READ_UNCOMMITTED)
    assert client.end_offsets([place]) == end
    assert committed_values(log, topic) == []


def test_id_without_an_open_transaction_keeps_its_producer(client, producer, topic):
    producer.commit_transaction()
    until(lambda: client.describe_transactions([topic])[topic].state == "CompleteCommit")
    before = client.describe_transactions([topic])[topic]
    assert client.abort_transaction(topic).end is TransactionEnd.NOTHING_OPEN
    assert client.describe_transactions([topic])[topic] == before
    producer.begin_transaction()
    producer.send(topic, b"next", partition=0).result()
    producer.commit_transaction()


def test_transaction_that_was_committed_meanwhile_is_said_to_be(client, producer, log, topic):
    before = client.describe_transactions([topic])[topic]
    producer.commit_transaction()
    assert client.abort_transaction(topic, start_ms=before.start_ms).end is TransactionEnd.COMMITTED
    assert committed_values(log, topic) == [b"value"]


def test_next_transaction_of_the_producer_is_left_alone(client, producer, log, topic):
    before = client.describe_transactions([topic])[topic]
    producer.commit_transaction()
    producer.begin_transaction()
    producer.send(topic, b"next", partition=0).result()
    with pytest.raises(OutcomeUnknown, match="ended by itself meanwhile"):
        client.abort_transaction(topic, start_ms=before.start_ms)
    producer.commit_transaction()
    assert committed_values(log, topic) == [b"value", b"next"]


def test_id_that_is_not_there_is_not_made(client, topic):
    with pytest.raises(BrokerRefused) as raised:
        client.abort_transaction(topic)
    assert raised.value.error is ErrorCode.transactional_id_not_found
    assert client.describe_transactions([topic], skip_missing=True) == {}
    assert topic not in [listed.transactional_id for listed in client.list_transactions()]
