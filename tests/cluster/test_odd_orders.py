"""Requests between brokers that are well formed and mean nothing good: a member answers them or closes the connection, and lives.

What they have left on its disk, and in ZooKeeper, it finds when it starts again. ONCELOG_SEED chooses other ones, and
ONCELOG_REQUESTS more of them.
"""

from __future__ import annotations

import os

import pytest

from harness.cluster_in_memory import ClusterInMemory
from oncelog.broker import BrokerCore
from oncelog.coordination import Promise
from oncelog.wire import WireError, construct, message_module
from tests.chaos.fuzzed_cluster_frames import RandomClusterFrames, between_brokers, of_clients
from tests.chaos.fuzzed_frames import TOPICS

BROKERS = (0, 1, 2)
SEED = int(os.environ.get("ONCELOG_SEED", "1"))
REQUESTS = int(os.environ.get("ONCELOG_REQUESTS", "900"))
STARTED_AGAIN_AFTER = 150
PAUSES_MS = (0.5, 3, 30, 200)
METADATA = 3


class Peer:
    number = peer_port = 1
    listener = "PLAINTEXT"
    principal = None
    peer_host = "anybody"

    def reserve(self, most_bytes: int, least_bytes: int) -> Promise[int]:
        return Promise.ready(max(most_bytes, least_bytes))

    def close(self, reason: str | None = None) -> None:
        pass


class Attacked(ClusterInMemory):
    def __init__(self, seed: int) -> None:
        super().__init__(*BROKERS, seed=seed, num_partitions="2", default_replication_factor="2")
        self.start_served(*BROKERS)
        types = message_module(METADATA, 4, "request")
        names = tuple(types.MetadataRequestTopic(name=name) for name in TOPICS)
        self.ask(0, construct(types.MetadataRequest, topics=names, allow_auto_topic_creation=True))
        self.until(lambda: all(self.core(0).topics.named(name) is not None for name in TOPICS))
        ids = [topic.topic_id for topic in self.core(0).topics]
        self.frames = RandomClusterFrames(seed, ids, of_clients() | between_brokers(), BROKERS)
        self.orders = RandomClusterFrames(seed, ids, between_brokers(), BROKERS)

    def attack(self, request: int) -> None:
        frames = self.orders if request % 3 else self.frames
        core = self.core(frames.chance.choice(BROKERS))
        frames.controller_epoch = core.metadata.membership.members.controller_epoch
        frames.broker_epochs = tuple(map(self.epoch, BROKERS))
        hand_over(core, frames.request())
        self.rest(frames.chance.choice(PAUSES_MS))

    def start_again(self) -> None:
        chance = self.orders.chance
        broker_id = chance.choice(BROKERS)
        node = self.nodes[broker_id]
        if chance.random() < 0.5:
            node.stop()
        else:
            node.die(power=chance.random() < 0.5)
        self.rest(5_000)
        self.start_served(broker_id)


def hand_over(core: BrokerCore, request: bytes) -> None:
    try:
        core.receive(Peer(), memoryview(request))
    except WireError:
        return


@pytest.mark.parametrize("seed", range(SEED, SEED + 2))
def test_no_request_between_brokers_stops_a_member(seed: int) -> None:
    cluster = Attacked(seed)
    for request in range(1, REQUESTS // 2):
        cluster.attack(request)
        if request % STARTED_AGAIN_AFTER == 0:
            cluster.start_again()
    for broker_id in BROKERS:
        cluster.nodes[broker_id].die(power=False)
    cluster.rest(10_000)
    cluster.start_served(*BROKERS)
