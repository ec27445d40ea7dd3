"""A transaction whose partition loses its leader before the markers are written: what is seen, and what has to wait."""

from __future__ import annotations

import pytest

from harness.waiting import until
from oncelog.client import (
    Client,
    Consumer,
    IsolationLevel,
    NewTopic,
    OffsetSpec,
    Producer,
    TopicPartition,
    TransactionFailed,
)
from tests.cluster.processes.trial import TRANSACTIONS, coordinator_of

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.drawn(3)]

ID = "ledger"
TOPIC = "alone"


def committed(bootstrap_servers: str, partition: TopicPartition) -> list[bytes | None]:
    """Up to the last stable offset as it is now."""
    with Client(bootstrap_servers) as client:
        end = client.end_offsets([partition], isolation_level=IsolationLevel.READ_COMMITTED)[partition]
    found: list[bytes | None] = []
    with Consumer(bootstrap_servers) as consumer:
        consumer.assign({partition: OffsetSpec.EARLIEST})
        while consumer.position(partition) < end:
            found += [record.value for record in consumer.poll(100)]
    return found


def test_transaction_is_seen_partition_by_partition_and_the_next_one_waits_for_a_leader(new_cluster) -> None:
    """KIP-98 §5.2: the end is answered once the decision is in the transaction log; the markers are written after that."""
    cluster = new_cluster("oncelog", "oncelog", "oncelog")
    cluster.start()
    servers = cluster.bootstrap_servers
    patience = {"call_timeout_ms": 10_000, "delivery_timeout_ms": 10_000}
    with Client(servers) as client, Producer(servers, transactional_id=ID, **patience) as producer:
        client.create_topics([NewTopic(TOPIC, 3, 1)])
        producer.init_transactions()
        coordinator = coordinator_of(cluster, TRANSACTIONS, ID)
        leaders = {one.partition: one.leader for one in client.metadata([TOPIC])[TOPIC].partitions}
        led, lost = sorted(leaders, key=lambda number: leaders[number] != coordinator)[:2]
        producer.begin_transaction()
        for number in (led, lost):
            producer.send(TOPIC, b"value", partition=number).result()
        cluster.brokers[leaders[lost]].kill()
        producer.commit_transaction()
        alive = ",".join(one.bootstrap_servers for one in cluster.brokers.values() if one.is_running)
        until(lambda: committed(alive, TopicPartition(TOPIC, led)) == [b"value"])

        producer.begin_transaction()
        with pytest.raises(TransactionFailed, match=f"waits for a leader of {TOPIC}-{lost}$"):
            producer.send(TOPIC, b"next", partition=led).result()
        cluster.brokers[leaders[lost]].start()
        until(lambda: committed(servers, TopicPartition(TOPIC, lost)) == [b"value"])
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(TOPIC, b"next", partition=led).result()
        producer.commit_transaction()
        until(lambda: committed(servers, TopicPartition(TOPIC, led)) == [b"value", b"next"])
