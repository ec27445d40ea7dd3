"""What a broker takes of the settings in ZooKeeper, and when it hears that they have changed."""

from __future__ import annotations

import logging
from uuid import UUID

import pytest

from harness.administered_broker import AdministeredBroker
from oncelog.broker.view import Leadership
from oncelog.cluster.zookeeper.session import Create, Delete, Exists, NodeChange, SetData, Watched, ZooKeeperError
from oncelog.cluster.zookeeper.znodes import ConfigEntity, encode_config, paths
from oncelog.coordination import start

MINUTE_MS = 60_000
TOPIC_ID = UUID(int=9)


def store(member, entity_type, name, **configs):
    """Be another broker that changes settings, and tells nobody; that does `tell`."""
    path = paths.config(entity_type, name)
    data = encode_config({key.replace("_", "."): value for key, value in configs.items()})
    if member.ask_zookeeper(SetData(path, data)) is ZooKeeperError.NO_NODE:
        member.ask_zookeeper(Create(path, data))


def tell(member, entity_type, name):
    change = ConfigEntity(entity_type, name).encode()
    member.ask_zookeeper(Create(paths.CONFIG_CHANGE, change, is_sequential=True))


def learn(member, name):
    return member.topics.learn(name, TOPIC_ID, {0: Leadership(0, 0, (0,), (0,))})


def retention_ms(member, name):
    return member.topics.named(name).values["retention.ms"]


def test_start_reads_what_there_is(member):
    store(member, "topics", "t", retention_ms="7200000")
    store(member, "brokers", "<default>", log_retention_ms="1000", message_max_bytes="2000000")
    store(member, "brokers", "0", log_retention_ms="5000")
    store(member, "brokers", "1", log_retention_ms="9000")
    learn(member, "t")
    member.wait(member.cluster_configs.start())
    assert retention_ms(member, "t") == 7_200_000
    assert member.settings.number("log.retention.ms") == 5000
    assert member.settings.number("message.max.bytes") == 2_000_000


def test_change_is_followed_when_it_is_told_of(member):
    learn(member, "t")
    store(member, "topics", "t", retention_ms="7200000")
    tell(member, "topics", "t")
    member.world.until(lambda: retention_ms(member, "t") == 7_200_000)
    store(member, "brokers", "0", log_retention_ms="5000")
    tell(member, "brokers", "0")
    member.world.until(lambda: member.settings.value("log.retention.ms") == 5000)
    member.ask_zookeeper(Delete(paths.config("topics", "t")))
    tell(member, "topics", "t")
    member.world.until(lambda: retention_ms(member, "t") == 5000)


def test_change_that_an_old_broker_tells_of_is_followed(member):
    """Version 1 of a change names type and entity, as Kafka before 0.10.1 did."""
    learn(member, "t")
    store(member, "topics", "t", retention_ms="7200000")
    told = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
    member.ask_zookeeper(Create(paths.CONFIG_CHANGE, told, is_sequential=True))
    member.world.until(lambda: retention_ms(member, "t") == 7_200_000)


@pytest.mark.parametrize(
    "told",
    [
        b"",
        b"no JSON",
        b'{"version":7}',
        b'{"version":2,"entity_path":"nothing"}',
        b'{"version":2,"entity_path":"users/alice/clients/c%201"}',
        b'{"version":2,"entity_path":"brokers/1"}',
    ],
)
def test_change_that_says_nothing_to_this_broker_stops_nothing(member, told):
    learn(member, "t")
    member.ask_zookeeper(Create(paths.CONFIG_CHANGE, told, is_sequential=True))
    store(member, "topics", "t", retention_ms="7200000")
    tell(member, "topics", "t")
    member.world.until(lambda: retention_ms(member, "t") == 7_200_000)


def test_settings_that_are_not_known_here_are_left_alone_and_named_once(member, caplog):
    caplog.set_level(logging.WARNING, "oncelog.broker")
    learn(member, "t")
    store(member, "topics", "t", retention_ms="7200000", some_new_setting="1", segment_bytes="many")
    store(member, "brokers", "0", log_retention_ms="5000", leader_replication_throttled_rate="1000", node_id="5")
    for _ in range(3):
        member.wait(member.cluster_configs.start())
    assert retention_ms(member, "t") == 7_200_000
    assert member.settings.number("log.retention.ms") == 5000
    assert member.settings.number("node.id") == 0
    said = sorted(record.getMessage() for record in caplog.records)
    assert [text.split(" in ZooKeeper")[0] for text in said] == [
        "leader.replication.throttled.rate of broker 0",
        "node.id of broker 0",
        "segment.bytes of topic t",
        "some.new.setting of topic t",
    ]
    data = member.data(paths.config("topics", "t"))
    assert data is not None
    assert b'"some.new.setting":"1"' in data


def test_settings_that_contradict_each_other_count_for_none(member):
    learn(member, "t")
    store(member, "topics", "t", min_compaction_lag_ms="9", max_compaction_lag_ms="1")
    member.wait(member.cluster_configs.start())
    assert member.topics.named("t").configs == {}


def test_settings_of_a_topic_that_is_heard_of_are_read_first(member):
    """CreateTopics writes them, and makes no change that tells of them."""
    store(member, "topics", "t", retention_ms="7200000")
    member.wait(start(member.cluster_configs.read_topics(["t"])))
    learn(member, "t")
    assert retention_ms(member, "t") == 7_200_000


def test_change_during_a_lost_connection_is_heard_of_afterwards(member, world):
    learn(member, "t")
    other = AdministeredBroker(world, 1)
    world.cut(member.client)
    store(other, "topics", "t", retention_ms="7200000")
    tell(other, "topics", "t")
    world.mend(member.client)
    world.until(lambda: retention_ms(member, "t") == 7_200_000)


def test_new_session_reads_all_again(member, world):
    """No watch is left of the session before, and the changes that told of it may be purged by then."""
    learn(member, "t")
    other = AdministeredBroker(world, 1)
    store(other, "topics", "t", retention_ms="7200000")
    store(other, "brokers", "0", log_retention_ms="5000")
    assert retention_ms(member, "t") != 7_200_000
    lose_session(world, member)
    world.until(lambda: retention_ms(member, "t") == 7_200_000)
    assert member.settings.number("log.retention.ms") == 5000
    store(other, "topics", "t", retention_ms="1")
    tell(other, "topics", "t")
    world.until(lambda: retention_ms(member, "t") == 1)


def lose_session(world, member):
    """Have a member that is cut off without a session, and let it find out."""
    witness, name = world.connect(), f"/lives-as-long-as-{member.client.session_id}"
    world.mend(member.client)
    member.ask_zookeeper(Create(name, is_ephemeral=True))
    world.ask(witness, Exists(name, watch=True))
    before = member.client.session_id
    world.cut(member.client)
    world.until(lambda: Watched(name, NodeChange.DELETED) in world.heard[witness].watched)
    world.mend(member.client)
    world.until(lambda: member.client.session_id not in (0, before))


def test_changes_that_are_old_are_purged(simulated_world):
    """ZkNodeChangeNotificationListener: a change is kept for 15 minutes, and purged when the next one comes."""
    member = AdministeredBroker(simulated_world)
    member.prepare()
    for name in ("a", "b"):
        tell(member, "topics", name)
    wait_ms(simulated_world, 14 * MINUTE_MS)
    tell(member, "topics", "c")
    wait_ms(simulated_world, 2 * MINUTE_MS)
    assert len(member.children(paths.CONFIG_CHANGES)) == 3
    tell(member, "topics", "d")
    wait_ms(simulated_world, 1000)
    assert member.children(paths.CONFIG_CHANGES) == ("config_change_0000000002", "config_change_0000000003")


def wait_ms(world, duration_ms):
    for end_ms in range(int(world.queue.now_ms), int(world.queue.now_ms + duration_ms) + 1000, 1000):
        world.until(lambda: world.queue.now_ms >= end_ms)  # noqa: B023 - it is asked at once
