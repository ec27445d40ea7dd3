"""Write with `acks=1` and with `acks=all`, kill the leader at the worst moment, and count what was acknowledged and is gone.

The worst moment is when the leader has records that its followers do not have. So the followers stand still for a second, as
machines that hang. They are in sync as far as anybody knows when the leader dies, and one of them takes its place.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations

from oncelog.client import Client, Consumer, Delivery, NewTopic, Producer, RetriesExhausted, TopicPartition
from oncelog.testing import RunningCluster, cluster

TOPIC = "payments"
VALUES = [b"payment %d" % number for number in range(100)]
SESSION_MS = 10_000
"""The followers' sessions with ZooKeeper outlive their pause, so that they stay in sync."""
ROW = "{:<9} {:>13} {:>19} {:>19} {:>22}"


@dataclass
class Load:
    """The records of one producer to one partition, and the answers that came in time."""

    name: str
    producer: Producer
    partition: int
    patience_ms: int
    deliveries: dict[bytes, Delivery]
    acknowledged: int = 0

    def write(self) -> None:
        self.deliveries = {value: self.producer.send(TOPIC, value, partition=self.partition) for value in VALUES}
        with suppress(RetriesExhausted):
            self.producer.flush(timeout_ms=self.patience_ms)
        self.acknowledged = sum(delivery.is_done for delivery in self.deliveries.values())


def main() -> None:
    with cluster(3, zookeeper_session_timeout_ms=SESSION_MS, min_insync_replicas=2) as running:
        address = running.bootstrap_servers
        leader, *partitions = led_by_one_broker(address)
        with Producer(address, acks=1) as one, Producer(address, acks="all") as every:
            loads = [Load("acks=1", one, partitions[0], 5000, {}), Load("acks=all", every, partitions[1], 1000, {})]
            write_and_kill(running, leader, loads)
        print(ROW.format("", "ACKNOWLEDGED", "ACKNOWLEDGED LATER", "THERE AFTERWARDS", "ACKNOWLEDGED AND GONE"))
        for load in loads:
            told = {value for value, delivery in load.deliveries.items() if delivery.is_done}
            there = read(address, load.partition) & set(VALUES)
            later = len(told) - load.acknowledged
            print(ROW.format(load.name, load.acknowledged, later, len(there), len(told - there)))


def write_and_kill(running: RunningCluster, leader: int, loads: list[Load]) -> None:
    """Write while the followers stand still, and kill the leader before they go on."""
    followers = [broker for number, broker in running.brokers.items() if number != leader]
    with Producer(running.bootstrap_servers, acks=1) as first:
        # Each finds the leader while every broker answers.
        for producer in (first, *(load.producer for load in loads)):
            producer.send(TOPIC, b"before", partition=loads[0].partition).result()
        for follower in followers:
            follower.pause()
        # A fetch of each follower may wait at the leader. This record answers it, and there is none after it.
        first.send(TOPIC, b"before", partition=loads[0].partition).result()
    for load in loads:
        load.write()
    running.brokers[leader].kill()
    for follower in followers:
        follower.resume()
    for load in loads:
        load.producer.flush()


def led_by_one_broker(address: str) -> tuple[int, int, int]:
    """A broker, and two partitions that it leads: of four partitions, one of three brokers leads two."""
    with Client(address) as client:
        client.create_topics([NewTopic(TOPIC, 4, 3)])
        leaders = {0: -1}
        while -1 in leaders.values():
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
