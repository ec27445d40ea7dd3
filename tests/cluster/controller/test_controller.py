"""Controllers over a model of ZooKeeper: elections, sessions, watches, and what brokers are told in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.cluster.controller.alter_partition import WantedIsr
from oncelog.cluster.controller.controller import PRODUCER_ID_MAX, next_block
from oncelog.cluster.controller.leader_elections import ElectionType
from oncelog.cluster.controller.partitions import ELECTED_AT_ONCE_MAX
from oncelog.cluster.controller.queues import ANSWERED_WITHIN_MS
from oncelog.cluster.controller.reassignment import NO_ERROR
from oncelog.cluster.controller.requests import leader_and_isr, update_metadata
from oncelog.cluster.controller.values import LeaderRecoveryState
from oncelog.cluster.controller.zookeeper import ControllerZooKeeper, ResignedError
from oncelog.cluster.zookeeper.session import (
    Children,
    Create,
    Data,
    Delete,
    GetChildren,
    GetData,
    Multi,
    SetData,
    ZooKeeperError,
)
from oncelog.cluster.zookeeper.znodes import (
    FeatureZnode,
    ProducerIdBlock,
    decode_controller,
    decode_controller_epoch,
    decode_feature,
    decode_producer_id_block,
    decode_topic,
    encode_config,
    encode_isr_change,
    encode_log_dir_event,
    encode_preferred_replica_election,
    encode_reassignments,
    paths,
)
from oncelog.coordination import Promise, start
from oncelog.wire import ErrorCode
from tests.cluster.controllers import SETTINGS, SimulatedCluster


class LosesAnswerToClaim:
    """A client whose connection breaks behind the first multi, which was carried out."""

    def __init__(self, client) -> None:
        self._client = client
        self.is_lost = False

    @property
    def session_id(self) -> int:
        return self._client.session_id

    def submit(self, request):
        result = self._client.submit(request)
        if not isinstance(request, Multi) or self.is_lost:
            return result
        self.is_lost = True
        lost = Promise()
        result.then(lambda _: lost.resolve(ZooKeeperError.CONNECTION_LOSS))
        return lost


@pytest.fixture
def cluster():
    made = SimulatedCluster()
    made.start_broker(1, 2, 3)
    return made


@pytest.fixture
def node(cluster):
    made = cluster.start_controller(1)
    cluster.until(lambda: made.controller.is_active)
    cluster.settle()
    return made


def read(cluster, path: str) -> bytes | None:
    result = cluster.world.ask(cluster.client, GetData(path))
    return result.data if isinstance(result, Data) else None


def ask(cluster, request):
    return cluster.world.ask(cluster.client, request)


def test_first_to_come_is_the_controller_and_raises_the_epoch_with_it(cluster):
    first, second = cluster.start_controller(1), cluster.start_controller(2)
    cluster.settle()
    active = [one for one in (first, second) if one.controller.is_active]
    assert len(active) == 1
    assert decode_controller(read(cluster, paths.CONTROLLER)).broker_id == active[0].node_id
    assert decode_controller_epoch(read(cluster, paths.CONTROLLER_EPOCH)) == 1
    assert {one.controller.controller_id for one in (first, second)} == {active[0].node_id}


def test_next_controller_is_elected_when_the_session_of_the_first_ends(cluster, node):
    second = cluster.start_controller(2)
    cluster.create("t", (1, 2))
    cluster.settle()
    assert not second.controller.is_active
    cluster.world.ensemble.expire(node.zookeeper.session_id)
    cluster.until(lambda: second.controller.is_active)
    cluster.settle()
    assert not node.controller.is_active
    assert decode_controller_epoch(read(cluster, paths.CONTROLLER_EPOCH)) == 2
    assert cluster.brokers[1].told[-1].controller_epoch == 2


def test_brokers_hear_of_each_other_before_anything_else(cluster, node):
    first = cluster.brokers[1].told[0]
    assert isinstance(first, update_metadata.UpdateMetadataRequest)
    assert [one.id for one in first.live_brokers] == [1, 2, 3]
    assert first.broker_epoch == cluster.brokers[1].epoch


def test_topic_that_is_made_is_led(cluster, node):
    topic_id = cluster.create("t", (1, 2), (2, 3))
    cluster.settle()
    assert (cluster.state("t", 0).leader, cluster.state("t", 0).isr) == (1, (1, 2))
    assert cluster.brokers[2].leader_epoch("t", 1) == (2, 0)
    told = next(one for one in cluster.brokers[2].told if isinstance(one, leader_and_isr.LeaderAndIsrRequest))
    assert told.topic_states[0].topic_id == topic_id
    assert {one.broker_id: (one.host_name, one.port) for one in told.live_leaders}[1] == ("host-1", 9092)


def test_partitions_of_a_broker_that_died_are_led_by_others(cluster, node):
    cluster.create("t", *[(1, 2, 3)] * 50)
    cluster.settle()
    cluster.kill_broker(1)
    cluster.settle()
    assert {cluster.state("t", number).leader for number in range(50)} == {2}
    assert all(cluster.brokers[3].leader_epoch("t", number) == (2, 1) for number in range(50))


def test_broker_that_does_not_answer_holds_up_nobody_and_is_told_in_order_when_it_does(cluster, node):
    cluster.brokers[2].is_silent = True
    cluster.create("t", (1, 2))
    cluster.settle()
    cluster.create("u", (2, 1))
    cluster.settle()
    assert cluster.brokers[1].leader_epoch("u", 0) == (2, 0)
    assert cluster.brokers[2].leader_epoch("t", 0) is None
    cluster.brokers[2].is_silent = False
    cluster.settle()
    told = [
        one.topic_states[0].topic_name
        for one in cluster.brokers[2].told
        if isinstance(one, leader_and_isr.LeaderAndIsrRequest)
    ]
    assert told == ["t", "u"]


def test_broker_that_does_not_answer_holds_up_a_shutdown_once(cluster, node):
    count = 5 * ELECTED_AT_ONCE_MAX
    cluster.create("t", *[(3, 1, 2)] * count)
    cluster.settle()
    cluster.brokers[2].is_silent = True
    began_ms = node.clock.monotonic_ms()
    epoch = cluster.brokers[3].epoch
    assert cluster.take(node.controller.shut_down_broker(3, epoch)) == (ErrorCode.none, [])
    assert ANSWERED_WITHIN_MS <= node.clock.monotonic_ms() - began_ms < 2 * ANSWERED_WITHIN_MS
    assert all(cluster.brokers[1].leader_epoch("t", number) == (1, 1) for number in range(count))
    cluster.brokers[2].is_silent = False
    cluster.settle()
    assert all(cluster.brokers[2].leader_epoch("t", number) == (1, 1) for number in range(count))


def test_controller_that_is_replaced_while_it_waits_for_a_broker_goes_on_no_more(cluster, node):
    cluster.create("t", *[(3, 1, 2)] * 2 * ELECTED_AT_ONCE_MAX)
    cluster.settle()
    cluster.brokers[2].is_silent = True
    task = start(node.controller.shut_down_broker(3, cluster.brokers[3].epoch))
    cluster.settle(ANSWERED_WITHIN_MS / 2)
    assert cluster.brokers[1].leader_epoch("t", 0) == (1, 1)
    told = len(cluster.brokers[1].told)
    node.controller.close()
    assert task.value == (ErrorCode.not_controller, [])
    cluster.settle(2 * ANSWERED_WITHIN_MS)
    assert len(cluster.brokers[1].told) == told


def test_broker_that_comes_back_is_told_what_it_hosts_in_its_new_epoch(cluster, node):
    cluster.create("t", (1, 2))
    cluster.settle()
    cluster.kill_broker(1)
    cluster.start_broker(1)
    cluster.settle()
    assert cluster.brokers[1].leader_epoch("t", 0)[0] == 2
    assert {one.broker_epoch for one in cluster.brokers[1].told} == {cluster.brokers[1].epoch}


def test_topic_grows_with_its_znode(cluster, node):
    cluster.create("t", (1, 2))
    cluster.settle()
    grown = decode_topic("t", read(cluster, paths.topic("t")))
    grown = replace(grown, partitions={**grown.partitions, 1: replace(grown.partitions[0], replicas=(3, 1))})
    ask(cluster, SetData(paths.topic("t"), grown.encode()))
    cluster.settle()
    assert cluster.state("t", 1).leader == 3


def test_deleted_topic_leaves_no_znode_behind(cluster, node):
    cluster.create("t", (1, 2), (2, 3))
    ask(cluster, Create(paths.config("topics", "t"), encode_config({})))
    cluster.settle()
    ask(cluster, Create(paths.delete_topic("t")))
    cluster.settle()
    assert [
        read(cluster, path) for path in (paths.topic("t"), paths.config("topics", "t"), paths.delete_topic("t"))
    ] == [
        None,
        None,
        None,
    ]
    cluster.create("t", (3, 1))
    cluster.settle()
    assert cluster.state("t").leader == 3


def test_topic_stays_where_deleting_is_not_enabled(cluster):
    cluster.start_controller(1, replace(SETTINGS, delete_topic_enable=False))
    cluster.create("t", (1, 2))
    cluster.settle()
    ask(cluster, Create(paths.delete_topic("t")))
    cluster.settle()
    assert read(cluster, paths.topic("t")) is not None
    assert read(cluster, paths.delete_topic("t")) is None


def test_reassignment_by_znode_is_begun_each_time_there_is_one(cluster, node):
    cluster.create("t", (1,))
    cluster.settle()
    for target in ((2, 1), (3, 1)):
        ask(cluster, Create(paths.REASSIGN_PARTITIONS, encode_reassignments({("t", 0): target})))
        cluster.settle()
        assert decode_topic("t", read(cluster, paths.topic("t"))).partitions[0].adding == target[:1]
        ask(cluster, Delete(paths.REASSIGN_PARTITIONS))
        cluster.settle()


def test_preferred_election_by_znode_is_held_each_time_there_is_one(cluster, node):
    cluster.create("t", (1, 2))
    cluster.settle()
    for _ in range(2):
        ask(cluster, Create(paths.PREFERRED_REPLICA_ELECTION, encode_preferred_replica_election([("t", 0)])))
        cluster.settle()
        assert read(cluster, paths.PREFERRED_REPLICA_ELECTION) is None


def test_log_directory_that_fails_gives_its_leaders_away(cluster, node):
    cluster.create("t", (1, 2), (1, 2))
    cluster.settle()
    cluster.brokers[1].failed.add(("t", 0))
    ask(cluster, Create(paths.LOG_DIR_EVENT, encode_log_dir_event(1), is_sequential=True))
    cluster.settle()
    assert [cluster.state("t", number).leader for number in (0, 1)] == [2, 1]
    assert ask(cluster, GetChildren(paths.LOG_DIR_EVENTS)).names == ()


def test_in_sync_replicas_that_an_old_broker_wrote_are_told_to_all(cluster, node):
    cluster.create("t", (1, 2))
    cluster.settle()
    state = read(cluster, paths.partition_state("t", 0)).replace(b"[1,2]", b"[1]")
    ask(cluster, SetData(paths.partition_state("t", 0), state))
    ask(cluster, Create(paths.ISR_CHANGE, encode_isr_change([("t", 0)]), is_sequential=True))
    cluster.settle()
    assert cluster.brokers[3].told[-1].topic_states[0].partition_states[0].isr == (1,)
    assert isinstance(ask(cluster, GetChildren(paths.ISR_CHANGES)), Children)
    assert ask(cluster, GetChildren(paths.ISR_CHANGES)).names == ()


def test_unclean_election_follows_the_setting_of_the_topic(cluster, node):
    cluster.create("t", (1, 2))
    cluster.settle()
    cluster.kill_broker(2)
    cluster.settle()
    cluster.kill_broker(1)
    cluster.start_broker(2)
    cluster.settle()
    assert cluster.state("t").leader == -1
    config = encode_config({"unclean.leader.election.enable": "true"})
    ask(cluster, Create(paths.config("topics", "t"), config))
    node.controller.unclean_election_enabled("t")
    cluster.settle()
    assert cluster.state("t").leader == 2
    assert cluster.state("t").recovery_state is LeaderRecoveryState.RECOVERING


def test_leader_is_answered_what_its_in_sync_replicas_are_now(cluster, node):
    asked = (cluster.create("t", (1, 2)), 0)
    cluster.settle()
    wanted = {asked: WantedIsr(0, (1,), LeaderRecoveryState.RECOVERED, 0)}
    epoch = cluster.brokers[1].epoch
    results = cluster.take(node.controller.alter_partitions(1, epoch, wanted, 3))
    assert results[asked] == cluster.state("t")
    assert cluster.take(node.controller.alter_partitions(1, epoch + 1, wanted, 3)) is ErrorCode.stale_broker_epoch


def test_broker_that_is_not_the_controller_says_so(cluster, node):
    other = cluster.start_controller(2)
    cluster.settle()
    assert cluster.take(other.controller.alter_partitions(1, 1, {}, 3)) is ErrorCode.not_controller
    assert cluster.take(other.controller.shut_down_broker(1, 1)) == (ErrorCode.not_controller, [])
    assert cluster.take(other.controller.allocate_producer_ids(1, 1)) is ErrorCode.not_controller
    assert cluster.take(other.controller.reassign({})) is ErrorCode.not_controller
    answers = cluster.take(other.controller.elect_leaders([("t", 0)], ElectionType.PREFERRED))
    assert answers[("t", 0)].code is ErrorCode.not_controller


def test_reassignment_that_is_asked_for_is_listed_until_it_is_over(cluster, node):
    topic_id = cluster.create("t", (1,))
    cluster.settle()
    assert cluster.take(node.controller.reassign({("t", 0): (2,)})) == {("t", 0): NO_ERROR}
    assert cluster.take(node.controller.list_reassignments(None)).keys() == {("t", 0)}
    state = cluster.state("t")
    wanted = WantedIsr(state.leader_epoch, (1, 2), LeaderRecoveryState.RECOVERED, state.partition_epoch)
    cluster.take(node.controller.alter_partitions(1, cluster.brokers[1].epoch, {(topic_id, 0): wanted}, 3))
    cluster.settle()
    assert cluster.take(node.controller.list_reassignments(None)) == {}
    assert (cluster.state("t").leader, cluster.state("t").isr) == (2, (2,))


def test_producer_ids_are_given_out_in_blocks_of_a_thousand(cluster, node):
    epoch = cluster.brokers[2].epoch
    blocks = [cluster.take(node.controller.allocate_producer_ids(2, epoch)) for _ in range(2)]
    assert blocks == [ProducerIdBlock(2, 0, 999), ProducerIdBlock(2, 1000, 1999)]
    assert decode_producer_id_block(read(cluster, paths.PRODUCER_ID_BLOCK)) == blocks[1]
    assert cluster.take(node.controller.allocate_producer_ids(2, epoch - 1)) is ErrorCode.stale_broker_epoch
    assert cluster.take(node.controller.allocate_producer_ids(9, 1)) is ErrorCode.broker_id_not_registered


def test_features_are_enabled_with_the_levels_they_had(cluster, node):
    assert decode_feature(read(cluster, paths.FEATURE)) == FeatureZnode({})


def test_controller_whose_connection_broke_goes_on_with_it(cluster, node):
    cluster.create("t", *[(1, 2)] * 20)
    cluster.settle()
    cluster.kill_broker(1)
    cluster.settle(5)
    cluster.world.ensemble.cut_off("controller-1", cluster.world.queue.now_ms + 300)
    cluster.settle(3000)
    assert node.controller.is_active
    assert {cluster.state("t", number).leader for number in range(20)} == {2}


def test_controller_that_was_superseded_changes_nothing_and_tells_nobody(cluster, node):
    """Its session lives on, but somebody has removed `/controller`, and the epoch was raised (KIP-380)."""
    cluster.create("t", (1, 2))
    second = cluster.start_controller(2)
    cluster.settle()
    assert not second.controller.is_active
    ask(cluster, Delete(paths.CONTROLLER))
    cluster.until(lambda: second.controller.is_active or node.controller.controller_id == 1)
    # The version of the epoch when the first was elected: by now it has another.
    fenced: list[bool] = []
    stale = ControllerZooKeeper(node.zookeeper, 1, lambda: fenced.append(True))
    cluster.settle()
    before = cluster.state("t")
    with pytest.raises(ResignedError):
        cluster.take(stale.write_plain([SetData(paths.partition_state("t", 0), b"{}")]))
    assert fenced == [True]
    assert cluster.state("t") == before


def test_controller_that_lost_its_session_does_nothing_more_in_the_next_one(cluster, node):
    """Nobody else was elected, so that no fence would hold it up."""
    cluster.create("t", *[(1, 2)] * 50)
    cluster.settle()
    node.is_broker_registered_again = False
    cluster.world.ensemble.cut_off("controller-1", cluster.world.queue.now_ms + 10, silently=True)
    cluster.kill_broker(1)
    cluster.world.ensemble.expire(node.zookeeper.session_id)
    before = [cluster.state("t", number) for number in range(50)]
    cluster.settle(10_000)
    assert not node.controller.is_active
    assert [cluster.state("t", number) for number in range(50)] == before
    assert any(state.leader == 1 for state in before)


def test_claim_whose_answer_was_lost_is_recognised(cluster):
    node = cluster.start_controller(1, seen_through=LosesAnswerToClaim)
    cluster.until(lambda: node.controller.is_active)
    cluster.settle()
    assert node.zookeeper.is_lost
    assert node.controller.is_active
    assert decode_controller_epoch(read(cluster, paths.CONTROLLER_EPOCH)) == 1


def test_broker_that_came_back_unseen_is_told_over_a_channel_of_its_own(cluster, node):
    """It may listen elsewhere."""
    cluster.world.ensemble.cut_off("controller-1", cluster.world.queue.now_ms + 500)
    cluster.kill_broker(1)
    cluster.start_broker(1)
    cluster.settle(3000)
    assert node.controller.is_active
    assert node.opened.count(1) == 2
    assert {one.broker_epoch for one in cluster.brokers[1].told} == {cluster.brokers[1].epoch}


def test_znode_that_cannot_be_read_holds_up_no_other(cluster, node):
    ask(cluster, Create(paths.topic("broken"), b"nonsense"))
    cluster.create("t", (1, 2))
    cluster.settle()
    assert cluster.state("t").leader == 1


def test_claim_of_two_at_once_is_granted_to_one(cluster):
    nodes = [cluster.start_controller(node_id) for node_id in range(5)]
    cluster.settle()
    assert sum(one.controller.is_active for one in nodes) == 1
    assert decode_controller_epoch(read(cluster, paths.CONTROLLER_EPOCH)) == 1
    assert ask(cluster, Create(paths.CONTROLLER)) is ZooKeeperError.NODE_EXISTS


def test_blocks_follow_one_another_from_zero():
    first = next_block(None, 1)
    assert first == ProducerIdBlock(1, 0, 999)
    assert next_block(first, 2) == ProducerIdBlock(2, 1000, 1999)


def test_there_is_no_block_beyond_the_last_producer_id():
    """ZkProducerIdManager: "Have exhausted all producerIds" where the last id is above Long.MaxValue - 1000."""
    limit = PRODUCER_ID_MAX - 1000
    assert next_block(ProducerIdBlock(1, limit - 999, limit), 1) == ProducerIdBlock(1, limit + 1, PRODUCER_ID_MAX)
    assert next_block(ProducerIdBlock(1, limit - 998, limit + 1), 1) is None
