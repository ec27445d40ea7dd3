"""A producer that ends, or gives up a transaction: what is not sent any more, and what is said of it."""

from __future__ import annotations

import asyncio

import pytest

from harness.names import unique
from oncelog.client import (
    AsyncProducer,
    Client,
    Consumer,
    IsolationLevel,
    NewTopic,
    OffsetSpec,
    Producer,
    TopicPartition,
)
from oncelog.client.errors import IllegalState, TransactionFailed

RECORD_BYTES = 900
MANY = 1000


@pytest.fixture
def topic(oncelog_broker) -> str:
    name = unique("ends")
    with Client(oncelog_broker.bootstrap_servers) as client:
        client.create_topics([NewTopic(name, 1)])
    return name


def values(bootstrap_servers: str, topic: str, isolation_level: IsolationLevel) -> list[bytes | None]:
    place = TopicPartition(topic, 0)
    with Client(bootstrap_servers) as client:
        end = client.end_offsets([place], isolation_level=isolation_level)[place]
    found: list[bytes | None] = []
    with Consumer(bootstrap_servers, isolation_level=isolation_level) as consumer:
        consumer.assign({place: OffsetSpec.EARLIEST})
        while consumer.position(place) < end:
            found += [record.value for record in consumer.poll()]
    return found


def test_record_for_an_unknown_topic_is_refused_at_once_by_a_producer_that_was_closed(oncelog_broker) -> None:
    """No broker is asked about the topic any more."""
    producer = Producer(oncelog_broker.bootstrap_servers)
    producer.close()
    name = unique("never-heard-of")
    with pytest.raises(IllegalState, match="this producer was closed"):
        producer.send(name, b"late")
    with Client(oncelog_broker.bootstrap_servers) as client:
        assert name not in client.metadata(), "who is asked about a topic makes it"


def test_full_batches_of_a_transaction_that_was_aborted_are_in_no_later_one(oncelog_broker, topic: str) -> None:
    """Each record fills a batch, and most of them still wait for their turn when the transaction is aborted."""
    with Producer(oncelog_broker.bootstrap_servers, transactional_id=unique("ends"), batch_bytes=1000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        dropped = [producer.send(topic, bytes(RECORD_BYTES)) for _ in range(MANY)]
        producer.abort_transaction()
        with pytest.raises(TransactionFailed):
            dropped[-1].result()
        producer.begin_transaction()
        producer.send(topic, b"kept")
        producer.commit_transaction()
    assert values(oncelog_broker.bootstrap_servers, topic, IsolationLevel.READ_COMMITTED) == [b"kept"]
    written = values(oncelog_broker.bootstrap_servers, topic, IsolationLevel.READ_UNCOMMITTED)
    assert written[-1] == b"kept"
    assert len(written) <= MANY


def test_record_whose_topic_is_looked_for_when_its_producer_is_closed_is_refused(oncelog_broker, topic: str) -> None:
    """It was not promised yet, and a promise would never be kept."""

    async def run() -> None:
        producer = AsyncProducer(oncelog_broker.bootstrap_servers)
        sending = asyncio.ensure_future(producer.send(topic, b"late"))
        await asyncio.sleep(0)
        assert not sending.done(), "its topic is not known yet"
        await producer.close()
        with pytest.raises(IllegalState, match="closed"):
            await asyncio.wait_for(sending, timeout=10)

    asyncio.run(run())
    assert values(oncelog_broker.bootstrap_servers, topic, IsolationLevel.READ_UNCOMMITTED) == []
