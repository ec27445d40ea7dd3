"""A broker whose session with ZooKeeper ends, or is silent: it leads nothing, takes no orders, and comes back."""

from __future__ import annotations

from typing import Any

import pytest

from harness.cluster_in_memory import SESSION_TIMEOUT_MS, ClusterInMemory, PlayedBroker, PlayedController
from harness.cluster_messages import errors_of, known, led, produced, records, stopped
from oncelog.broker.storage.partition import ReplicaRole
from oncelog.cluster.zookeeper.session import Data, GetData, SetData
from oncelog.cluster.zookeeper.znodes import paths
from oncelog.simulation.cluster.zookeeper import SimulatedZooKeeper
from oncelog.wire import ErrorCode

BROKER, OTHER = 0, 1
BOTH = (BROKER, OTHER)
NONE, STALE = ErrorCode.none, ErrorCode.stale_broker_epoch


class Leading:
    """A broker that leads the partition."""

    def __init__(self) -> None:
        self.cluster = ClusterInMemory(BROKER)
        self.controller = PlayedController(self.cluster)
        self.controller.members.append(PlayedBroker(self.cluster, OTHER).member)
        self.controller.starts(BROKER)
        self.lead(0)

    @property
    def node(self) -> str:
        return self.cluster.nodes[BROKER].name

    @property
    def session_id(self) -> int:
        zookeeper = self.cluster.core(BROKER).metadata.zookeeper
        assert isinstance(zookeeper, SimulatedZooKeeper)
        return zookeeper.session_id

    @property
    def role(self) -> ReplicaRole:
        return self.cluster.partition(BROKER).role

    def lead(self, epoch: int, **fields: Any) -> ErrorCode:
        answer = self.controller.order(BROKER, led(BROKER, epoch, BOTH), **fields)
        return answer.error_code or errors_of(answer)[0]

    def write(self) -> ErrorCode:
        return produced(self.cluster.wait(self.cluster.produce(BROKER, records(b"a"), acks=1)))[0]

    def cut_off(self, time_ms: float = 1e12) -> None:
        self.cluster.ensemble.cut_off(self.node, self.cluster.queue.now_ms + time_ms)

    def until_registered_again(self, before: int) -> None:
        self.cluster.until(lambda: self.cluster.epoch(BROKER) != before)
        self.cluster.rest(100)


@pytest.fixture
def leading() -> Leading:
    return Leading()


def test_whose_session_expires_leads_no_more_and_registers_again(leading: Leading) -> None:
    before = leading.cluster.epoch(BROKER)
    leading.cluster.ensemble.expire(leading.session_id)
    leading.cluster.until(lambda: leading.role is ReplicaRole.FOLLOWER)
    assert leading.write() is ErrorCode.not_leader_or_follower
    leading.until_registered_again(before)
    assert leading.lead(1) is NONE
    assert leading.write() is NONE


def test_who_registers_again_takes_the_same_leader_epoch(leading: Leading) -> None:
    """To the controller it is a broker that has started: it is told what there is, under the epochs that there are."""
    before = leading.cluster.epoch(BROKER)
    leading.cluster.ensemble.expire(leading.session_id)
    leading.until_registered_again(before)
    assert leading.lead(0) is NONE
    assert leading.role is ReplicaRole.LEADER


def test_who_is_cut_off_leads_until_its_session_may_be_over(leading: Leading) -> None:
    leading.cut_off()
    leading.cluster.rest(SESSION_TIMEOUT_MS * 0.8)
    assert leading.write() is NONE
    leading.cluster.until(lambda: leading.role is ReplicaRole.FOLLOWER, SESSION_TIMEOUT_MS)
    assert leading.write() is ErrorCode.not_leader_or_follower


def test_who_hears_nothing_leads_nothing_by_the_time_that_its_session_ends(leading: Leading) -> None:
    """The client leaves a silent connection later, and its session ends for ZooKeeper when nothing has come for so long."""
    leading.cluster.rest(SESSION_TIMEOUT_MS)
    leading.cluster.ensemble.cut_off(leading.node, 1e12, silently=True)
    tree = leading.cluster.ensemble.tree
    leading.cluster.until(lambda: tree.node(paths.broker(BROKER)) is None)
    assert leading.role is ReplicaRole.FOLLOWER


def test_who_was_paused_for_longer_than_a_session_is_registered_again_on_the_connection_it_has(
    leading: Leading,
) -> None:
    """ZooKeeper was paused too: the session is there still, and no event tells of it."""
    before, session_id = leading.cluster.epoch(BROKER), leading.session_id
    process = leading.cluster.nodes[BROKER].process
    assert process is not None
    process.paused_until_ms = leading.cluster.queue.now_ms + 2 * SESSION_TIMEOUT_MS
    leading.cluster.ensemble.stop(process.paused_until_ms)
    leading.until_registered_again(before)
    assert leading.session_id == session_id
    assert leading.lead(0) is NONE
    assert leading.write() is NONE


def test_a_connection_that_is_back_soon_changes_nothing(leading: Leading) -> None:
    before = leading.cluster.epoch(BROKER)
    for _ in range(4):
        leading.cut_off(SESSION_TIMEOUT_MS * 0.5)
        leading.cluster.rest(SESSION_TIMEOUT_MS * 0.9)
    assert leading.cluster.epoch(BROKER) == before
    assert leading.write() is NONE


def test_who_is_back_in_the_same_session_after_a_silence_has_another_epoch(leading: Leading) -> None:
    """While there is no quorum no session expires: the broker has left, and nobody else knows."""
    before, session_id = leading.cluster.epoch(BROKER), leading.session_id
    leading.cluster.ensemble.stop(leading.cluster.queue.now_ms + 3 * SESSION_TIMEOUT_MS)
    leading.cluster.until(lambda: leading.role is ReplicaRole.FOLLOWER)
    leading.until_registered_again(before)
    assert leading.session_id == session_id
    assert leading.cluster.epoch(BROKER) > before
    assert leading.lead(0) is NONE
    assert leading.write() is NONE


def test_who_is_cut_off_takes_no_orders_that_were_for_the_life_that_is_over(leading: Leading) -> None:
    """KIP-380: the broker epoch says which life of a broker a request is for."""
    before = leading.cluster.epoch(BROKER)
    leading.cut_off()
    leading.cluster.until(lambda: leading.role is ReplicaRole.FOLLOWER)
    stop = leading.controller.stop(BROKER, stopped(1, delete=True), broker_epoch=before)
    update = leading.controller.update(BROKER, known(OTHER, 1, BOTH), broker_epoch=before)
    assert (leading.lead(1, broker_epoch=before), stop.error_code, update.error_code) == (STALE, STALE, STALE)
    assert leading.role is ReplicaRole.FOLLOWER


def orders(leading: Leading, **fields: Any) -> list[ErrorCode]:
    """What each kind of order is answered: the broker is to follow, to delete its replica, and to learn of another leader."""
    controller = leading.controller
    return [
        controller.order(BROKER, led(OTHER, 1, BOTH), **fields).error_code,
        controller.stop(BROKER, stopped(1, delete=True), **fields).error_code,
        controller.update(BROKER, known(OTHER, 1, BOTH), **fields).error_code,
    ]


@pytest.mark.parametrize("is_cut_off", [False, True])
@pytest.mark.parametrize("epoch", [-1, -2, 2**40])
def test_epoch_that_no_life_of_the_broker_has_is_refused(leading: Leading, epoch: int, *, is_cut_off: bool) -> None:
    """Kafka's broker takes an order with -1, of a controller from before KIP-380, and one that is ahead."""
    if is_cut_off:
        leading.cut_off(4 * SESSION_TIMEOUT_MS)
        leading.cluster.until(lambda: leading.role is ReplicaRole.FOLLOWER)
    assert orders(leading, broker_epoch=epoch) == [STALE] * 3
    if not is_cut_off:
        assert leading.role is ReplicaRole.LEADER


@pytest.mark.parametrize("epoch", [6, 2**30])
def test_controller_of_which_zookeeper_has_not_heard_is_refused(leading: Leading, epoch: int) -> None:
    """It is elected when its epoch is in ZooKeeper (KafkaController.elect), and speaks to nobody before."""
    assert orders(leading, controller_epoch=epoch) == [ErrorCode.stale_controller_epoch] * 3
    assert leading.role is ReplicaRole.LEADER
    assert leading.lead(1) is NONE, "the true controller is still heard"


def test_controller_of_which_zookeeper_has_heard_is_heard_and_the_one_before_it_no_more(leading: Leading) -> None:
    epoch = leading.controller.next_epoch()
    assert leading.lead(1, controller_epoch=epoch) is NONE
    assert orders(leading) == [ErrorCode.stale_controller_epoch] * 3


def test_controller_is_not_believed_that_was_followed_by_another_before_it_spoke(leading: Leading) -> None:
    skipped = leading.controller.next_epoch()
    leading.controller.epoch = skipped
    newest = leading.controller.next_epoch()
    assert orders(leading) == [ErrorCode.stale_controller_epoch] * 3
    assert leading.lead(1, controller_epoch=newest) is NONE


def test_a_controller_that_knows_of_the_new_life_first_is_heard(leading: Leading) -> None:
    """It may hear of the new entry before the broker has read what its epoch is."""
    cluster = leading.cluster
    before = cluster.epoch(BROKER)
    cluster.ensemble.expire(leading.session_id)

    def new_epoch() -> int:
        made = cluster.ensemble.tree.node(paths.broker(BROKER))
        return before if made is None else made.czxid

    cluster.until(lambda: new_epoch() != before)
    assert cluster.epoch(BROKER) == before
    assert leading.lead(1, broker_epoch=new_epoch()) is NONE
    assert leading.role is ReplicaRole.LEADER


def test_a_session_that_expires_again_and_again_leaves_one_entry(leading: Leading) -> None:
    cluster = leading.cluster
    for step in range(30):
        before = leading.session_id
        cluster.ensemble.expire(before)
        cluster.until(lambda before=before: leading.session_id not in (0, before))
        for _ in range(step):
            cluster.queue.step(cluster.queue.now_ms + 1)
    cluster.rest(1_000)
    found = cluster.submit(GetData(paths.broker(BROKER)))
    assert isinstance(found, Data)
    assert (found.stat.ephemeral_owner, found.stat.czxid) == (leading.session_id, cluster.epoch(BROKER))
    assert leading.lead(0) is NONE
    assert leading.write() is NONE


def test_an_order_for_an_earlier_life_waits_until_there_is_an_epoch_and_is_refused_then(leading: Leading) -> None:
    """The entry of a broker that was killed is there until its session ends: until then the controller takes it for alive."""
    cluster = leading.cluster
    before = cluster.epoch(BROKER)
    cluster.nodes[BROKER].die(power=False)
    cluster.nodes[BROKER].start()
    cluster.rest(100)
    early = leading.controller.sends_order(BROKER, led(BROKER, 1, BOTH), broker_epoch=before)
    cluster.rest(SESSION_TIMEOUT_MS / 2)
    assert cluster.epoch(BROKER) == -1
    assert not early.is_resolved
    assert cluster.wait(early).error_code is STALE
    assert leading.role is ReplicaRole.FOLLOWER
    assert cluster.epoch(BROKER) > before


def test_an_order_for_the_entry_that_is_being_made_is_carried_out() -> None:
    """The controller may hear of the entry before the broker has read what its epoch is."""
    cluster = ClusterInMemory(BROKER)
    controller = PlayedController(cluster)
    cluster.nodes[BROKER].start()
    tree = cluster.ensemble.tree
    cluster.until(lambda: tree.node(paths.broker(BROKER)) is not None)
    made = tree.node(paths.broker(BROKER))
    assert made is not None
    assert cluster.epoch(BROKER) == -1
    sent = controller.sends_order(BROKER, led(BROKER, 0, BOTH), broker_epoch=made.czxid)
    assert errors_of(cluster.wait(sent)) == [NONE]


def test_sessions_that_end_while_an_earlier_entry_is_waited_for_do_not_end_the_start(leading: Leading) -> None:
    cluster = leading.cluster
    first = cluster.core(BROKER)
    for step in range(20):
        cluster.nodes[BROKER].die(power=False)
        cluster.nodes[BROKER].start()
        core = cluster.core(BROKER)
        assert core is not first
        cluster.until(lambda: leading.session_id != 0)
        cluster.rest(200)
        for _ in range(step):
            cluster.queue.step(cluster.queue.now_ms + 50)
        cluster.ensemble.expire(leading.session_id)
        cluster.until(lambda: cluster.epoch(BROKER) >= 0)
        assert cluster.core(BROKER) is core
        first = core


def test_what_somebody_writes_into_the_entry_changes_no_epoch(leading: Leading) -> None:
    before = leading.cluster.epoch(BROKER)
    found = leading.cluster.submit(GetData(paths.broker(BROKER)))
    assert isinstance(found, Data)
    leading.cluster.submit(SetData(paths.broker(BROKER), found.data))
    leading.cluster.rest(100)
    assert leading.cluster.epoch(BROKER) == before
