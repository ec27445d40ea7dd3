"""Brokers of a cluster agree on its settings, whoever starts them and with what."""

from __future__ import annotations

import logging

import pytest

from harness.cluster_in_memory import SESSION_TIMEOUT_MS, SETTINGS, ClusterInMemory
from harness.cluster_messages import TOPIC, records
from oncelog.broker.config.setting import SettingError
from oncelog.broker.config.settings import BROKER_SETTINGS
from oncelog.broker.config.shared_settings import AGREED, HANDED_ON, SHARED
from oncelog.cluster.replicas.replica import HostedReplica
from oncelog.cluster.settings_agreement import LISTENER
from oncelog.cluster.zookeeper.session import Create, Created, Done, SetData
from oncelog.cluster.zookeeper.znodes import ZnodeError, decode_shared_settings, encode_config, paths
from oncelog.wire import ErrorCode, message_module

BARE = {name: SETTINGS[name] for name in SETTINGS if name not in SHARED}
"""What a broker has to be told by itself."""
REPLICATION = {"default.replication.factor": "3", "min.insync.replicas": "2"}
METADATA, METADATA_VERSION = 3, 8


class Cluster(ClusterInMemory):
    defaults = BARE


def told(cluster: ClusterInMemory, broker_id: int, **settings: str) -> None:
    """What this one is started with the next time."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    cluster.nodes[broker_id].settings = BARE | given | {"broker.id": str(broker_id)}


def cluster_of_three() -> ClusterInMemory:
    """Started with `REPLICATION`; then broker 2 is gone."""
    cluster = Cluster(1, 2, 3, **{name.replace(".", "_"): value for name, value in REPLICATION.items()})
    cluster.start_served(1, 2, 3)
    cluster.nodes[2].die(power=False)
    return cluster


def stored(cluster: ClusterInMemory) -> dict[str, str]:
    """The shared settings; beside them the listener between brokers, which is compared alone."""
    node = cluster.ensemble.tree.node(paths.SHARED_SETTINGS)
    assert node is not None
    values = dict(decode_shared_settings(node.data))
    assert values.pop(LISTENER) == "PLAINTEXT"
    return values


def in_effect(cluster: ClusterInMemory, broker_id: int, *names: str) -> dict[str, object]:
    settings = cluster.core(broker_id).settings
    return {name: settings.value(name) for name in (names or REPLICATION)}


def make(cluster: ClusterInMemory, broker_id: int) -> None:
    """Ask this broker for a topic that is not there yet."""
    types = message_module(METADATA, METADATA_VERSION, "request")
    request = types.MetadataRequest(
        topics=(types.MetadataRequestTopic(name=TOPIC),),
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    cluster.ask(broker_id, request)


def is_leading_alone(cluster: ClusterInMemory, broker_id: int) -> bool:
    partition = cluster.core(broker_id).topics.partition(TOPIC, 0)
    leading = None if partition is None else partition.leading
    return isinstance(leading, HostedReplica) and leading.state.state.isr == {broker_id}


def test_a_broker_that_was_not_told_has_what_the_others_were_told() -> None:
    cluster = cluster_of_three()
    told(cluster, 2)
    cluster.start_served(2)
    assert in_effect(cluster, 2) == {"default.replication.factor": 3, "min.insync.replicas": 2}


def test_a_topic_that_it_makes_has_the_replicas_and_is_acknowledged_by_as_many_as_elsewhere() -> None:
    cluster = cluster_of_three()
    told(cluster, 2)
    cluster.start_served(2)
    make(cluster, 2)
    cluster.until(lambda: (state := cluster.state()) is not None and len(state.isr) == 3)
    for other in (1, 3):
        cluster.nodes[other].die(power=False)
    cluster.until(lambda: is_leading_alone(cluster, 2))
    answer = cluster.wait(cluster.produce(2, records(b"12.50")))
    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.not_enough_replicas


def test_a_start_with_another_value_than_that_of_brokers_that_run_is_refused_with_its_name() -> None:
    cluster = cluster_of_three()
    told(cluster, 2, min_insync_replicas="1", default_replication_factor="3")
    began_ms = cluster.queue.now_ms
    with pytest.raises(SettingError) as refused:
        cluster.start(2)
    assert str(refused.value) == (
        "min.insync.replicas=1 is not allowed: this cluster has min.insync.replicas=2, and brokers 1, 3 run with it. Leave it "
        "out, change it with `oncelog configs alter --every-broker --set min.insync.replicas=…`, or stop every broker before one "
        "is started with another value"
    )
    assert stored(cluster) == REPLICATION
    assert cluster.queue.now_ms - began_ms <= 2 * SESSION_TIMEOUT_MS


def test_the_same_value_in_other_words_is_the_same() -> None:
    cluster = cluster_of_three()
    told(cluster, 2, min_insync_replicas=" +2 ", default_replication_factor="3")
    cluster.start_served(2)


def test_a_cluster_that_was_stopped_is_started_with_other_values_though_its_brokers_were_killed() -> None:
    """Their entries are there until their sessions end."""
    cluster = cluster_of_three()
    for one in (1, 3):
        cluster.nodes[one].die(power=False)
    for one in cluster.nodes:
        told(cluster, one, min_insync_replicas="1")
    cluster.start_served(1, 2, 3)
    assert {in_effect(cluster, one)["min.insync.replicas"] for one in cluster.nodes} == {1}
    assert {in_effect(cluster, one)["default.replication.factor"] for one in cluster.nodes} == {3}


def test_what_nobody_was_told_before_holds_for_brokers_that_run(caplog: pytest.LogCaptureFixture) -> None:
    cluster = cluster_of_three()
    told(cluster, 2, num_partitions="4")
    with caplog.at_level(logging.WARNING):
        cluster.start_served(2)
    for one in cluster.nodes:
        cluster.until(lambda one=one: in_effect(cluster, one, "num.partitions") == {"num.partitions": 4})
    said = "num.partitions is 4 in this cluster from now on: another broker was started with it"
    assert caplog.messages.count(said) == 2


def test_topics_that_are_there_follow_what_is_said_later() -> None:
    cluster = Cluster(1, 2)
    cluster.start_served(1)
    make(cluster, 1)
    cluster.until(lambda: cluster.core(1).topics.named(TOPIC) is not None)
    told(cluster, 2, min_insync_replicas="2")
    cluster.start_served(2)
    topic = cluster.core(1).topics.named(TOPIC)
    assert topic is not None
    cluster.until(lambda: topic.values["min.insync.replicas"] == 2)


def test_a_broker_whose_session_ended_meanwhile_hears_of_it() -> None:
    cluster = cluster_of_three()
    cluster.ensemble.expire(cluster.core(1).metadata.zookeeper.session_id)
    values = encode_config(REPLICATION | {"num.partitions": "7"})
    assert isinstance(cluster.submit(SetData(paths.SHARED_SETTINGS, values)), Done)
    cluster.until(lambda: in_effect(cluster, 1, "num.partitions") == {"num.partitions": 7})


@pytest.mark.parametrize(
    ("of_others", "own", "in_effect_here"),
    [
        ({"log.retention.hours": "-1"}, {}, -1),
        ({"log.retention.hours": "-1"}, {"log.retention.hours": "2"}, 2 * 3_600_000),
        ({"log.retention.ms": "5"}, {"log.retention.hours": "2"}, 2 * 3_600_000),
        ({"log.retention.ms": "5"}, {}, 5),
    ],
)
def test_who_is_not_told_how_long_records_are_kept_keeps_them_as_the_others(of_others, own, in_effect_here) -> None:
    """A leader that deletes more than the others deletes it for all."""
    cluster = Cluster(1, 2, **{name.replace(".", "_"): value for name, value in of_others.items()})
    cluster.start_served(1)
    told(cluster, 2, **{name.replace(".", "_"): value for name, value in own.items()})
    cluster.start_served(2)
    assert cluster.core(2).settings.topic_values["retention.ms"] == in_effect_here
    # A rolling restart: who comes later is told what was told last.
    assert stored(cluster) == (own or of_others)


def test_a_change_at_run_time_is_over_what_is_shared() -> None:
    cluster = cluster_of_three()
    told(cluster, 2)
    path = paths.config("brokers", "<default>")
    assert isinstance(cluster.submit(Create(path, encode_config({"min.insync.replicas": "3"}))), Created)
    cluster.start_served(2)
    assert in_effect(cluster, 2)["min.insync.replicas"] == 3


def test_what_another_release_shares_is_kept_and_what_is_no_value_is_left_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = cluster_of_three()
    odd = {"min.insync.replicas": "2", "num.partitions": "many", "of.another.release": "x"}
    assert isinstance(cluster.submit(SetData(paths.SHARED_SETTINGS, encode_config(odd))), Done)
    told(cluster, 2, default_replication_factor="3")
    cluster.start_served(2)
    assert stored(cluster) == odd | {"default.replication.factor": "3"}
    assert in_effect(cluster, 2, "num.partitions") == {"num.partitions": 1}
    assert any(one.startswith("num.partitions of the cluster in ZooKeeper is ignored") for one in caplog.messages)


def test_a_start_is_refused_where_what_the_cluster_shares_cannot_be_read() -> None:
    cluster = cluster_of_three()
    assert isinstance(cluster.submit(SetData(paths.SHARED_SETTINGS, b"no JSON")), Done)
    with pytest.raises(ZnodeError, match=paths.SHARED_SETTINGS):
        cluster.start(2)
    assert in_effect(cluster, 1) == {"default.replication.factor": 3, "min.insync.replicas": 2}


def test_what_is_shared_is_known_and_says_nothing_of_one_broker() -> None:
    assert BROKER_SETTINGS.keys() > SHARED
    assert not AGREED & HANDED_ON
    own = {"broker.id", "listeners", "log.dirs", "broker.rack", "zookeeper.connect", "num.network.threads", "log.dir"}
    assert not SHARED & own
    assert not [name for name in SHARED if BROKER_SETTINGS[name].is_sensitive]
