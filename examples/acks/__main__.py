"""Write with `acks=1` and with `acks=all`, kill the leader at the worst moment, and count what was acknowledged and is gone.

The worst moment is when the leader has records that its followers do not have. So the followers stand still for a second, as
machines that hang. They are in sync as far as anybody knows when the leader dies, and one of them takes its place.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import combinations

from oncelog.client import Client, Consumer, Delivery, NewTopic, Producer, RetriesExhausted, TopicPartition
from oncelog.testing import cluster

TOPIC = "payments"
VALUES = [b"payment %d" % number for number in range(100)]
SESSION_MS = 10_000
"""The followers' sessions with ZooKeeper outlive their pause, so that they stay in sync."""
ROW = "{:<9} {:>13} {:>19} {:>19} {:>22}"


def main() -> None:
    with cluster(3, zookeeper_session_timeout_ms=SESSION_MS, min_insync_replicas=2) as running:
        address = running.bootstrap_servers
        leader, *partitions = led_by_one_broker(address)
        followers = [broker for number, broker in running.brokers.items() if number != leader]
        sent: dict[str, dict[bytes, Delivery]] = {}
        acknowledged: dict[str, set[bytes]] = {}
        with (
            Producer(address, acks=1) as first,
            Producer(address, acks=1) as one,
            Producer(address, acks="all") as every,
        ):
            producers = {"acks=1": one, "acks=all": every}
            # Each finds the leader while every broker answers.
            for producer in (first, *producers.values()):
                producer.send(TOPIC, b"before", partition=partitions[0]).result()
            for follower in followers:
                follower.pause()
            # A fetch of each follower may wait at the leader. This record answers it, and there is none after it.
            first.send(TOPIC, b"before", partition=partitions[0]).result()
            for (name, producer), partition in zip(producers.items(), partitions, strict=True):
                sent[name] = {value: producer.send(TOPIC, value, partition=partition) for value in VALUES}
                with suppress(RetriesExhausted):
                    producer.flush(timeout_ms=1000)
                acknowledged[name] = {value for value, delivery in sent[name].items() if delivery.is_done}
            running.brokers[leader].kill()
            for follower in followers:
                follower.resume()
        print(ROW.format("", "ACKNOWLEDGED", "ACKNOWLEDGED LATER", "THERE AFTERWARDS", "ACKNOWLEDGED AND GONE"))
        for (name, deliveries), partition in zip(sent.items(), partitions, strict=True):
            there = deliveries.keys() & read(address, partition)
            gone = {value for value, delivery in deliveries.items() if delivery.is_done} - there
            later = len(deliveries) - len(acknowledged[name])
            print(ROW.format(name, len(acknowledged[name]), later, len(there), len(gone)))


def led_by_one_broker(address: str) -> tuple[int, int, int]:
    """A broker, and two partitions that it leads: of four partitions, one of three brokers leads two."""
    with Client(address) as client:
        client.create_topics([NewTopic(TOPIC, 4, 3)])
        leaders = {one.partition: one.leader for one in client.metadata([TOPIC])[TOPIC].partitions}
    first, second = next(pair for pair in combinations(leaders, 2) if leaders[pair[0]] == leaders[pair[1]])
    return leaders[first], first, second


def read(address: str, number: int) -> set[bytes | None]:
    partition = TopicPartition(TOPIC, number)
    values: set[bytes | None] = set()
    with Consumer(address) as consumer:
        consumer.assign({partition: 0})
        while consumer.lag()[partition]:
            values |= {record.value for record in consumer.poll()}
    return values


if __name__ == "__main__":
    main()
