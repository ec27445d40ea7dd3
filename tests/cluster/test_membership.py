"""Brokers as members of a cluster: what a played controller is asked, and three real brokers under their own controller."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from harness.cluster_in_memory import ClusterInMemory, PlayedController
from harness.cluster_messages import CONTROLLED_SHUTDOWN, TOPIC, TOPIC_ID, produced, records
from harness.running_cluster import RunningCluster
from oncelog.broker import dispatch
from oncelog.broker.readiness import Readiness
from oncelog.broker.storage.partition import ReplicaRole
from oncelog.cluster.zookeeper.session import Create, Delete, Done, Exists, GetChildren, ZooKeeperError
from oncelog.cluster.zookeeper.znodes import encode_config, paths
from oncelog.coordination import start
from oncelog.wire import ErrorCode, message_module
from tests.cluster.in_memory import make_topic

controlled_shutdown = message_module(CONTROLLED_SHUTDOWN, 3, "response")
BROKER = 0
ALL = (0, 1, 2)
NONE = ErrorCode.none


# --- under a played controller


def test_clients_are_served_when_a_controller_has_said_what_there_is() -> None:
    cluster = ClusterInMemory(BROKER)
    controller = PlayedController(cluster)
    cluster.start(BROKER)
    cluster.rest(1_000)
    assert cluster.core(BROKER).progress.reached is Readiness.LOGS
    controller.update(BROKER)
    assert cluster.core(BROKER).progress.reached is Readiness.COORDINATORS


@pytest.mark.parametrize("items_at_once", [2000, 0], ids=["small", "large"])
def test_an_order_that_comes_during_a_start_waits_until_the_broker_is_registered(
    monkeypatch: pytest.MonkeyPatch, items_at_once: int
) -> None:
    """The controller takes a broker for alive that was away for less than its session with ZooKeeper.

    It names no epoch of this life then: the answer says so, once the broker has one.
    """
    monkeypatch.setattr(dispatch, "ITEMS_AT_ONCE", items_at_once)
    cluster = ClusterInMemory(BROKER, min_insync_replicas="1")
    controller = PlayedController(cluster)
    for path in (*paths.parents(paths.SHARED_SETTINGS), *paths.parents(paths.broker(7)), paths.broker(7)):
        cluster.submit(Create(path))
    cluster.submit(Create(paths.SHARED_SETTINGS, encode_config({"min.insync.replicas": "2"})))
    cluster.nodes[BROKER].start()
    order = controller.sends_update(BROKER)
    cluster.rest(500)
    # Another broker with other settings was there: the start goes on when that is gone.
    cluster.submit(Delete(paths.broker(7)))
    assert cluster.wait(order).error_code is ErrorCode.stale_broker_epoch
    assert cluster.epoch(BROKER) >= 0


def test_a_session_that_ends_during_a_start_is_followed_by_another() -> None:
    cluster = RunningCluster(1)
    core = cluster.brokers[0]
    assert core.metadata.membership is not None
    found = start(core.metadata.membership.cluster_id("of another cluster"))
    cluster.ensemble.expire(core.metadata.zookeeper.session_id)
    cluster.until(lambda: found.is_resolved)
    assert found.value == core.cluster_id


def _shutdown(*remaining: int, error: ErrorCode = NONE) -> Callable[[Any], Any]:
    """Of each attempt: how many partitions nobody else leads yet."""
    left = list(remaining)

    def answer(_: Any) -> Any:
        partitions = tuple(
            controlled_shutdown.RemainingPartition(topic_name=TOPIC, partition_index=index)
            for index in range(left.pop(0))
        )
        return controlled_shutdown.ControlledShutdownResponse(error_code=error, remaining_partitions=partitions)

    return answer


@pytest.mark.parametrize(("remaining", "attempts"), [((0,), 1), ((2, 1, 0), 3), ((2, 2, 2), 3)])
def test_who_stops_asks_until_nothing_is_left_to_hand_over_or_it_is_no_use(
    remaining: tuple[int, ...], attempts: int
) -> None:
    """controlled.shutdown.max.retries: "the number of retries when such failures happen"; Kafka asks that often in all."""
    cluster = ClusterInMemory(BROKER, controlled_shutdown_retry_backoff_ms="500")
    controller = PlayedController(cluster)
    controller.starts(BROKER)
    controller.answers[CONTROLLED_SHUTDOWN] = _shutdown(*remaining)
    cluster.wait(cluster.core(BROKER).hand_over())
    asked = controller.asked(CONTROLLED_SHUTDOWN)
    assert [(one.broker_id, one.broker_epoch) for one in asked] == [(BROKER, cluster.epoch(BROKER))] * attempts


def test_who_stops_asks_again_after_a_refusal_and_without_an_answer() -> None:
    cluster = ClusterInMemory(BROKER, controlled_shutdown_retry_backoff_ms="500")
    controller = PlayedController(cluster)
    controller.starts(BROKER)
    controller.answers[CONTROLLED_SHUTDOWN] = _shutdown(0, 0, 0, error=ErrorCode.stale_broker_epoch)
    cluster.wait(cluster.core(BROKER).hand_over())
    assert len(controller.asked(CONTROLLED_SHUTDOWN)) == 3
    controller.answers.clear()
    cluster.wait(cluster.core(BROKER).hand_over())
    assert len(controller.asked(CONTROLLED_SHUTDOWN)) == 6


def test_who_need_not_hand_over_asks_nobody() -> None:
    cluster = ClusterInMemory(BROKER, controlled_shutdown_enable="false")
    controller = PlayedController(cluster)
    controller.starts(BROKER)
    assert cluster.core(BROKER).hand_over().is_resolved
    assert controller.asked(CONTROLLED_SHUTDOWN) == []


# --- three brokers


class Three:
    def __init__(self, **settings: str) -> None:
        self.cluster = ClusterInMemory(*ALL, min_insync_replicas="2", **settings)
        self.cluster.start_served(*ALL)
        self.cluster.create(TOPIC, TOPIC_ID, ALL)
        self.until_in_sync(*ALL)

    def until_in_sync(self, *brokers: int) -> None:
        self.cluster.until(lambda: (state := self.cluster.state()) is not None and set(state.isr) == set(brokers))

    def until_led(self, *, not_by: int = -1) -> int:
        def is_led() -> bool:
            leader = self.leader
            return leader not in (-1, not_by) and self.role(leader) is ReplicaRole.LEADER

        self.cluster.until(is_led)
        return self.leader

    @property
    def leader(self) -> int:
        state = self.cluster.state()
        return -1 if state is None else state.leader

    def role(self, broker_id: int) -> ReplicaRole:
        core = self.cluster.nodes[broker_id].served
        found = None if core is None else core.topics.partition(TOPIC, 0)
        return ReplicaRole.NONE if found is None else found.role

    def write(self, value: bytes) -> ErrorCode:
        leader = self.until_led()
        return produced(self.cluster.wait(self.cluster.produce(leader, records(value))))[0]

    def logs(self) -> list[bytes]:
        logs = [self.cluster.partition(one).log for one in ALL]
        return [bytes(log.read(0, 1 << 20, log.log_end_offset).data) if log.log_end_offset else b"" for log in logs]

    def until_same(self) -> None:
        self.until_in_sync(*ALL)
        self.cluster.until(lambda: len({self.cluster.partition(one).log.high_watermark for one in ALL}) == 1)
        assert len(set(self.logs())) == 1


def test_what_is_acknowledged_is_on_every_replica() -> None:
    three = Three()
    for number in range(5):
        assert three.write(b"%d" % number) is NONE
    three.until_same()
    assert three.cluster.partition(0).log.high_watermark == 5


@pytest.mark.parametrize("power", [True, False])
def test_a_leader_that_dies_loses_nothing_that_was_acknowledged(power: bool) -> None:
    three = Three()
    assert three.write(b"before") is NONE
    killed = three.until_led()
    three.cluster.nodes[killed].die(power=power)
    three.until_led(not_by=killed)
    assert three.write(b"meanwhile") is NONE
    three.cluster.start_served(killed)
    three.until_same()
    assert three.cluster.partition(killed).log.high_watermark == 2


def test_every_broker_may_die_and_the_log_is_the_same_everywhere() -> None:
    three = Three()
    for broker in ALL:
        assert three.write(b"%d" % broker) is NONE
        three.cluster.nodes[broker].die(power=False)
        three.cluster.rest(10_000)
        assert three.write(b"without %d" % broker) is NONE
        three.cluster.start_served(broker)
        three.until_same()
    assert three.cluster.partition(0).log.high_watermark == 6


def test_all_brokers_may_die_at_once() -> None:
    three = Three()
    assert three.write(b"before") is NONE
    for node in three.cluster.nodes.values():
        node.die(power=False)
    three.cluster.start_served(*ALL)
    three.until_in_sync(*ALL)
    assert three.write(b"after") is NONE
    three.until_same()
    assert three.cluster.partition(0).log.high_watermark == 2


def test_who_stops_has_handed_over_what_it_led() -> None:
    three = Three()
    assert three.write(b"a") is NONE
    stopped = three.until_led()
    three.cluster.wait(three.cluster.core(stopped).hand_over())
    assert three.leader not in (-1, stopped)
    three.cluster.nodes[stopped].stop()
    assert three.write(b"b") is NONE
    three.cluster.start_served(stopped)
    three.until_same()


def test_who_has_handed_over_holds_back_nothing_when_it_is_gone() -> None:
    """It would, had it caught up with who leads now: until all know that it is gone, nothing it lacks would be committed."""
    three = Three()
    assert three.write(b"a") is NONE
    stopped = three.until_led()
    three.cluster.wait(three.cluster.core(stopped).hand_over())
    three.cluster.rest(2_000)
    assert three.write(b"b") is NONE
    assert three.cluster.partition(stopped).log.log_end_offset == 1
    three.cluster.nodes[stopped].die(power=False)
    assert three.write(b"c") is NONE
    assert isinstance(three.cluster.submit(Exists(paths.broker(stopped))), Done), "nobody knows yet that it is gone"
    three.cluster.start_served(stopped)
    three.until_same()


def test_controller_that_stops_has_told_the_others_who_leads_now() -> None:
    """Nobody else tells them before another controller is elected, and until then they would know a leader that is gone."""
    cluster = Three().cluster
    stopped = next(one for one in ALL if cluster.core(one).metadata.controller.is_active)
    others = [one for one in ALL if one != stopped]
    names = [f"led-{number}" for number in range(20)]
    for number, name in enumerate(names):
        cluster.create(name, UUID(int=1000 + number), (stopped, *others))

    def known(one: int) -> set[int]:
        found = [cluster.core(one).topics.partition(name, 0) for name in names]
        return {-1 if partition is None else partition.leadership.leader for partition in found}

    cluster.until(lambda: all(known(one) == {stopped} for one in ALL))
    cluster.until(
        lambda: all(set(state.isr) == set(ALL) for name in names if (state := cluster.state(name)) is not None)
    )
    cluster.wait(cluster.core(stopped).hand_over())
    assert [known(one) for one in others] == [{others[0]}] * 2
    assert {cluster.partition(others[0], topic=name).role for name in names} == {ReplicaRole.LEADER}


def test_follower_that_stops_before_it_hears_of_the_high_watermark_misses_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It reads again what it had beyond that, and nothing was lost of which it would have to warn."""
    three = Three()
    assert three.write(b"a") is NONE
    follower = next(one for one in ALL if one != three.until_led())
    log = three.cluster.partition(follower).log
    assert three.write(b"b") is NONE
    assert log.high_watermark < log.log_end_offset
    three.cluster.nodes[follower].stop()
    with caplog.at_level("INFO"):
        three.cluster.start_served(follower)
    said = [record for record in caplog.records if f"{TOPIC}-0" in record.getMessage()]
    assert any("closed above its high watermark" in record.getMessage() for record in said)
    assert not [record for record in said if record.levelname in ("WARNING", "ERROR")]
    three.until_same()


def test_a_leader_that_is_cut_off_from_zookeeper_is_followed_by_another() -> None:
    three = Three()
    assert three.write(b"a") is NONE
    cut_off = three.until_led()
    node = three.cluster.nodes[cut_off].name
    three.cluster.ensemble.cut_off(node, three.cluster.queue.now_ms + 20_000)
    late = three.cluster.produce(cut_off, records(b"late"), acks=1)
    three.until_led(not_by=cut_off)
    three.cluster.until(lambda: three.role(cut_off) is ReplicaRole.FOLLOWER)
    three.cluster.wait(late)
    assert three.write(b"b") is NONE
    three.cluster.rest(20_000)
    three.until_same()


def test_a_follower_that_is_cut_off_leaves_the_in_sync_set_and_comes_back() -> None:
    three = Three()
    leader = three.until_led()
    follower = next(one for one in ALL if one != leader)
    until_ms = three.cluster.queue.now_ms + 8_000
    for other in ALL:
        if other != follower:
            three.cluster.network.part(f"broker-{other}", f"broker-{follower}", until_ms)
    assert three.write(b"a") is NONE
    three.until_in_sync(*(one for one in ALL if one != follower))
    three.until_same()


def test_a_topic_deleted_while_a_replica_is_down_is_gone_when_it_is_back() -> None:
    three = Three()
    assert three.write(b"a") is NONE
    down = next(one for one in ALL if one != three.until_led())
    three.cluster.nodes[down].die(power=False)
    three.until_in_sync(*(one for one in ALL if one != down))
    three.cluster.submit(Create(f"{paths.DELETE_TOPICS}/{TOPIC}"))
    three.cluster.rest(5_000)
    three.cluster.start_served(down)
    three.cluster.until(lambda: three.cluster.ensemble.tree.node(paths.topic(TOPIC)) is None)
    three.cluster.until(lambda: all(three.cluster.core(one).topics.named(TOPIC) is None for one in ALL))
    assert three.cluster.submit(GetChildren(paths.topic(TOPIC))) is ZooKeeperError.NO_NODE
    three.cluster.create(TOPIC, UUID(int=77), ALL)
    three.until_in_sync(*ALL)
    assert three.write(b"anew") is NONE
    three.until_same()
    assert three.cluster.partition(down).log.log_end_offset == 1


# --- the last broker


def test_the_last_broker_of_a_cluster_hands_over_and_stops_without_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody could lead what it leads: it asks as often as it may, and that is all."""
    cluster = RunningCluster(2, controlled_shutdown_retry_backoff_ms="100")
    make_topic(cluster, (0, 1), (1, 0))
    with caplog.at_level(logging.INFO):
        for one in (0, 1):
            cluster.wait(cluster.core(one).hand_over())
            cluster.nodes[one].stop()
            cluster.until(lambda one=one: cluster.ensemble.tree.node(paths.broker(one)) is None)
        cluster.rest(5_000)
    assert [one.getMessage() for one in caplog.records if one.levelno > logging.INFO] == []
    assert any("has no new leader" in one for one in caplog.messages)
