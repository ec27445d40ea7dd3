"""Conditions that a seed draws for a cluster beside its faults: the number of brokers, their settings, the topics."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from oncelog.client.values import NewTopic
from oncelog.simulation.conditions import broker_settings
from oncelog.simulation.workload import PARTITIONS, PLAIN

SIZES = (3, 3, 3, 5)
REPLICAS, IN_SYNC_MIN = 3, 2
FIXED = {
    "zookeeper.connect": "zookeeper:2181",
    "default.replication.factor": str(REPLICAS),
    "min.insync.replicas": str(IN_SYNC_MIN),
    "offsets.topic.replication.factor": str(REPLICAS),
    "transaction.state.log.replication.factor": str(REPLICAS),
    "transaction.state.log.min.isr": str(IN_SYNC_MIN),
    # Each replica cleans its log by itself: what is compared byte for byte is never cleaned.
    "log.cleaner.enable": "false",
}
DRAWN = {
    "zookeeper.session.timeout.ms": (1_500, 3_000, 6_000),
    "replica.lag.time.max.ms": (1_000, 3_000, 10_000),
    "replica.fetch.backoff.ms": (20, 200, 1_000),
    # Most of what an idle run takes are the fetches that find nothing.
    "replica.fetch.wait.max.ms": (150, 500, 500, 500),
    "replica.fetch.max.bytes": (300, 10_000, 1_048_576),
    "replica.socket.timeout.ms": (1_000, 5_000),
    "controller.socket.timeout.ms": (2_000, 10_000),
    "replica.high.watermark.checkpoint.interval.ms": (500, 5_000),
    "leader.imbalance.check.interval.seconds": (3, 15, 300),
    "controlled.shutdown.retry.backoff.ms": (500,),
}


def member_settings(random: Random) -> Mapping[str, str]:
    """The same for all members."""
    drawn = {name: str(random.choice(values)) for name, values in DRAWN.items()}
    return broker_settings(random) | drawn | FIXED


def replicated_topics(random: Random) -> list[NewTopic]:
    made = []
    for name, count in PARTITIONS.items():
        flushed = {"flush.messages": "1"} if name == PLAIN and random.random() < 0.3 else {}
        made.append(NewTopic(name, count, REPLICAS, flushed))
    return made
