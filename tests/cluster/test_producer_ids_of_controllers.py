"""A block of producer ids is given out when ZooKeeper has it, and to one broker: AllocateProducerIds, KIP-730."""

from __future__ import annotations

import pytest

from oncelog.cluster.zookeeper.session import Data, GetData, Multi, SetData, ZooKeeperError
from oncelog.cluster.zookeeper.znodes import ProducerIdBlock, decode_producer_id_block, paths
from oncelog.coordination import Promise, start
from oncelog.wire import ErrorCode
from tests.cluster.controllers import SimulatedCluster


class HeldBlocks:
    """A client whose writes of blocks go when they are let go."""

    def __init__(self, client) -> None:
        self._client = client
        self.is_holding = True
        self._held = []

    @property
    def session_id(self) -> int:
        return self._client.session_id

    @property
    def is_asked(self) -> bool:
        return bool(self._held)

    def submit(self, request):
        if not self.is_holding or not _writes_block(request):
            return self._client.submit(request)
        held = Promise()
        self._held.append((request, held))
        return held

    def let_go(self, *, is_answered: bool = True) -> None:
        """Send what was held; the answer may be lost, with the connection."""
        self.is_holding = False
        for request, held in self._held:
            result = self._client.submit(request)
            result.then(lambda it, held=held: held.resolve(it if is_answered else ZooKeeperError.CONNECTION_LOSS))
        self._held.clear()


def _writes_block(request) -> bool:
    return isinstance(request, Multi) and any(
        isinstance(one, SetData) and one.path == paths.PRODUCER_ID_BLOCK for one in request.writes
    )


@pytest.fixture
def cluster():
    made = SimulatedCluster()
    made.start_broker(1, 2)
    return made


@pytest.fixture
def node(cluster):
    made = cluster.start_controller(1, seen_through=HeldBlocks)
    cluster.until(lambda: made.controller.is_active)
    cluster.settle()
    return made


def last_block(cluster) -> ProducerIdBlock | None:
    result = cluster.world.ask(cluster.client, GetData(paths.PRODUCER_ID_BLOCK))
    assert isinstance(result, Data)
    return decode_producer_id_block(result.data)


def asked_for(cluster, node, broker_id: int):
    """A request that has come as far as its write."""
    asked = start(node.controller.allocate_producer_ids(broker_id, cluster.brokers[broker_id].epoch))
    cluster.until(lambda: node.zookeeper.is_asked)
    return asked


def test_block_is_not_given_out_before_zookeeper_has_it(cluster, node):
    asked = asked_for(cluster, node, 2)
    cluster.settle(10_000)
    assert not asked.is_resolved
    assert last_block(cluster) is None
    node.zookeeper.let_go()
    cluster.until(lambda: asked.is_resolved)
    assert asked.value == last_block(cluster) == ProducerIdBlock(2, 0, 999)


def test_block_that_another_broker_has_taken_meanwhile_is_not_given_out(cluster, node):
    """Brokers whose inter.broker.protocol.version is before 3.0 take blocks in ZooKeeper themselves."""
    asked = asked_for(cluster, node, 2)
    theirs = ProducerIdBlock(1, 0, 999)
    cluster.world.ask(cluster.client, SetData(paths.PRODUCER_ID_BLOCK, theirs.encode(), 0))
    node.zookeeper.let_go()
    cluster.until(lambda: asked.is_resolved)
    assert asked.value == last_block(cluster) == ProducerIdBlock(2, 1000, 1999)


def test_block_of_which_nobody_heard_that_zookeeper_has_it_is_not_given_out_twice(cluster, node):
    asked = asked_for(cluster, node, 2)
    node.zookeeper.let_go(is_answered=False)
    cluster.until(lambda: asked.is_resolved)
    given = cluster.take(node.controller.allocate_producer_ids(1, cluster.brokers[1].epoch))
    assert not set(range(asked.value.first, asked.value.last + 1)) & set(range(given.first, given.last + 1))
    assert last_block(cluster) == given


def test_controller_that_was_replaced_gives_out_no_block_of_its_successor(cluster, node):
    asked = asked_for(cluster, node, 2)
    node.process.paused_until_ms = cluster.world.queue.now_ms + 2_000
    second = cluster.start_controller(2)
    cluster.settle(100)
    cluster.world.ensemble.delete(paths.CONTROLLER)
    cluster.until(lambda: second.controller.is_active)
    given = cluster.take(second.controller.allocate_producer_ids(1, cluster.brokers[1].epoch))
    assert node.controller.is_active
    node.zookeeper.let_go()
    cluster.until(lambda: asked.is_resolved)
    assert asked.value is ErrorCode.not_controller
    assert last_block(cluster) == given == ProducerIdBlock(1, 0, 999)
