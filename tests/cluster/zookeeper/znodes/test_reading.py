"""How leniently znodes are read: older versions, later ones, and what is none of Kafka's."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.cluster.zookeeper.znodes import (
    AssignedReplicas,
    BrokerZnode,
    ConfigEntity,
    ControllerZnode,
    FeatureStatus,
    FeatureZnode,
    ListenerEndpoint,
    PartitionStateZnode,
    ProducerIdBlock,
    TopicZnode,
    ZnodeError,
    decode_broker,
    decode_cluster_id,
    decode_config,
    decode_config_change,
    decode_controller,
    decode_controller_epoch,
    decode_feature,
    decode_isr_change,
    decode_log_dir_event,
    decode_partition_state,
    decode_preferred_replica_election,
    decode_producer_id_block,
    decode_reassignments,
    decode_topic,
    desanitize,
    encode_config,
    encode_controller_epoch,
    paths,
    sanitize,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
EPOCH = st.integers(-(2**31), 2**31 - 2)
"""One that another can come after."""
BROKERS = st.lists(st.integers(0, 9), max_size=4).map(tuple)
DECODERS = {
    "/brokers/ids/3": lambda data: decode_broker(3, data),
    "/brokers/topics/t": lambda data: decode_topic("t", data),
    "/brokers/topics/t/partitions/7/state": lambda data: decode_partition_state("t", 7, data),
    "/cluster/id": decode_cluster_id,
    "/controller": decode_controller,
    "/controller_epoch": decode_controller_epoch,
    "/config/changes/config_change_0": lambda data: decode_config_change("config_change_0", data),
    "/config/topics/t": lambda data: decode_config("topics", "t", data),
    "/latest_producer_id_block": decode_producer_id_block,
    "/feature": decode_feature,
    "/isr_change_notification/isr_change_0": lambda data: decode_isr_change("isr_change_0", data),
    "/log_dir_event_notification/log_dir_event_0": lambda data: decode_log_dir_event("log_dir_event_0", data),
    "/admin/preferred_replica_election": decode_preferred_replica_election,
    "/admin/reassign_partitions": decode_reassignments,
}
NOTHING_WHERE_EMPTY = {"/config/topics/t": {}, "/latest_producer_id_block": None}


@pytest.mark.parametrize("path", DECODERS)
@pytest.mark.parametrize(
    "data", [b"{", b"[]", b"null", b"\xff", b'"x"', b"1.5", b"[" * 100_000], ids=lambda data: data[:4]
)
def test_what_is_none_of_kafkas_is_an_error_that_names_the_path(path, data):
    with pytest.raises(ZnodeError, match=f"^{path} in ZooKeeper has ") as raised:
        DECODERS[path](data)
    assert raised.value.path == path


@pytest.mark.parametrize("path", DECODERS)
def test_znode_without_data_is_an_error_but_where_nothing_is_a_value(path):
    if path in NOTHING_WHERE_EMPTY:
        assert DECODERS[path](b"") == NOTHING_WHERE_EMPTY[path]
    else:
        with pytest.raises(ZnodeError):
            DECODERS[path](b"")


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/brokers/ids/3", b'{"version":5,"jmx_port":-1,"endpoints":["h:1"]}'),
        ("/brokers/ids/3", b'{"version":5,"jmx_port":-1,"endpoints":["OWN://h:1"]}'),
        ("/brokers/ids/3", b'{"version":0,"jmx_port":-1,"endpoints":[]}'),
        ("/brokers/ids/3", b'{"version":5,"endpoints":[]}'),
        ("/brokers/topics/t", b'{"partitions":{"0":[1,"2"]}}'),
        ("/brokers/topics/t", b'{"partitions":{"x":[1]}}'),
        ("/brokers/topics/t", b'{"partitions":{"0":[true]}}'),
        ("/brokers/topics/t", b'{"partitions":{},"topic_id":"x"}'),
        ("/brokers/topics/t/partitions/7/state", b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0}'),
        (
            "/brokers/topics/t/partitions/7/state",
            b'{"controller_epoch":1,"leader":2147483648,"version":1,"leader_epoch":0,"isr":[]}',
        ),
        (
            "/brokers/topics/t/partitions/7/state",
            b'{"controller_epoch":1,"leader":1,"leader_recovery_state":2,"leader_epoch":0,"isr":[]}',
        ),
        (
            "/brokers/topics/t/partitions/7/state",
            b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":2147483647,"isr":[]}',
        ),
        ("/brokers/topics/t", b'{"partitions":{"%s":[1]}}' % (b"9" * 5000)),
        ("/brokers/topics/t", b'{"partitions":{"\\ud800":[1]}}'),
        ("/config/topics/t", b'{"config":{"a":"\xed\xa0\x80"}}'),
        ("/controller", b'{"version":1,"brokerid":"1"}'),
        ("/controller_epoch", b"1 2"),
        ("/controller_epoch", b"2147483647"),
        ("/controller_epoch", b"9" * 5000),
        ("/config/changes/config_change_0", b'{"version":3,"entity_path":"topics/t"}'),
        ("/config/changes/config_change_0", b'{"version":2,"entity_path":"topics"}'),
        ("/config/changes/config_change_0", b'{"version":2,"entity_path":"groups/g"}'),
        ("/config/topics/t", b'{"version":1,"config":{"a":1}}'),
        ("/latest_producer_id_block", b'{"version":1,"broker":1,"block_start":0,"block_end":"9"}'),
        ("/latest_producer_id_block", b'{"version":1,"broker":1,"block_start":"0","block_end":"9223372036854775808"}'),
        ("/feature", b'{"features":{},"version":3,"status":1}'),
        ("/feature", b'{"features":{},"version":2,"status":2}'),
        ("/feature", b'{"version":2,"status":1}'),
        ("/feature", b'{"features":{"f":{"max_version_level":0}},"version":2,"status":1}'),
        ("/feature", b'{"features":{"f":{"max_version_level":2}},"version":1,"status":1}'),
        ("/admin/reassign_partitions", b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'),
        ("/admin/preferred_replica_election", b'{"version":1,"partitions":[1]}'),
        ("/isr_change_notification/isr_change_0", b'{"version":1}'),
        ("/log_dir_event_notification/log_dir_event_0", b'{"version":1}'),
    ],
)
def test_wrong_fields_are_errors_that_name_the_path(path, data):
    with pytest.raises(ZnodeError, match=f"^{path} in ZooKeeper has "):
        DECODERS[path](data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            b'{"version":1,"host":"h","port":9092,"jmx_port":9999,"timestamp":"7"}',
            BrokerZnode((ListenerEndpoint("PLAINTEXT", "h", 9092),), 7, jmx_port=9999),
        ),
        (
            b'{"version":2,"host":"h","port":1,"jmx_port":-1,"timestamp":"7","endpoints":["PLAINTEXT://h:1","SSL://[::1]:2"]}',
            BrokerZnode((ListenerEndpoint("PLAINTEXT", "h", 1), ListenerEndpoint("SSL", "::1", 2, "SSL")), 7),
        ),
        (
            b'{"version":3,"host":"h","port":1,"jmx_port":-1,"timestamp":"7","endpoints":["SASL_SSL://:1"],"rack":"r"}',
            BrokerZnode((ListenerEndpoint("SASL_SSL", "", 1, "SASL_SSL"),), 7, "r"),
        ),
        (
            b'{"version":4,"host":null,"port":-1,"jmx_port":-1,"timestamp":"7","endpoints":["Client://h:1"],'
            b'"listener_security_protocol_map":{"Client":"SSL"},"rack":null}',
            BrokerZnode((ListenerEndpoint("CLIENT", "h", 1, "SSL"),), 7),
        ),
        (
            b'{"version":5,"jmx_port":-1,"endpoints":[],"features":{"f":{"min_version":1,"max_version":3}},"later":[{}]}',
            BrokerZnode((), -1, features={"f": (1, 3)}),
        ),
    ],
    ids=lambda value: value[:13].decode() if isinstance(value, bytes) else "",
)
def test_broker_of_every_version_is_read(data, expected):
    assert decode_broker(3, data) == expected


def test_topic_of_every_version_is_read():
    assert decode_topic("t", b'{"version":1,"partitions":{"1":[2],"0":[1,2]}}') == TopicZnode(
        None, {0: AssignedReplicas((1, 2)), 1: AssignedReplicas((2,))}
    )
    assert decode_topic(
        "t", b'{"version":2,"partitions":{"0":[1,2]},"adding_replicas":{"0":[2]},"removing_replicas":{"0":[1]}}'
    ) == TopicZnode(None, {0: AssignedReplicas((1, 2), (2,), (1,))})
    assert decode_topic("t", b'{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ"}') == TopicZnode(UUID(int=1))


def test_controller_from_before_kraft_has_no_epoch_of_it():
    assert decode_controller(b'{"version":1,"brokerid":4,"timestamp":"12"}') == ControllerZnode(4, 12, -1)


def test_feature_of_version_1_is_read():
    data = b'{"features":{"f":{"max_version_level":3,"min_version_level":2}},"version":1,"status":0}'
    assert decode_feature(data) == FeatureZnode({"f": 3}, FeatureStatus.DISABLED, 1)


def test_config_change_of_version_1_is_read():
    data = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
    assert decode_config_change("config_change_0", data) == ConfigEntity("topics", "t")


def test_config_without_settings_has_none():
    assert decode_config("users", "alice", b'{"version":1}') == {}


@given(st.builds(PartitionStateZnode, INT32, INT32, EPOCH, BROKERS, st.booleans()))
def test_any_partition_state_is_read_as_it_was_written(state):
    assert decode_partition_state("t", 7, state.encode()) == state


@given(
    st.builds(
        TopicZnode,
        st.none() | st.uuids(),
        st.dictionaries(st.integers(0, 999), st.builds(AssignedReplicas, BROKERS, BROKERS, BROKERS)),
    )
)
def test_any_topic_is_read_as_it_was_written(topic):
    assert decode_topic("t", topic.encode()) == topic


@given(st.dictionaries(st.text(), st.text()))
def test_any_settings_are_read_as_they_were_written(config):
    assert decode_config("topics", "t", encode_config(config)) == config


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**62), st.integers(0, 2**62))
def test_any_producer_id_block_is_read_as_it_was_written(broker_id, first, last):
    block = ProducerIdBlock(broker_id, first, last)
    assert decode_producer_id_block(block.encode()) == block


@given(EPOCH)
def test_any_controller_epoch_is_read_as_it_was_written(epoch):
    assert decode_controller_epoch(encode_controller_epoch(epoch)) == epoch


@pytest.mark.parametrize("path", DECODERS)
@given(data=st.binary(max_size=40))
def test_no_bytes_raise_anything_else(path, data):
    with suppress(ZnodeError):
        DECODERS[path](data)


@pytest.mark.parametrize(
    ("name", "sanitized"),
    [
        ("alice", "alice"),
        ("c 1", "c%201"),
        ("a*b", "a%2Ab"),
        ("a+b~c", "a%2Bb%7Ec"),
        ("<default>", "%3Cdefault%3E"),
        ("C=DE,O=x/y", "C%3DDE%2CO%3Dx%2Fy"),
        ("é😀%", "%C3%A9%F0%9F%98%80%25"),
        ("A.b-c_d", "A.b-c_d"),
    ],
)
def test_names_are_sanitised_as_kafkas_sanitizer_does(name, sanitized):
    assert sanitize(name) == sanitized
    assert desanitize(sanitized) == name


def test_paths_above_a_path_come_from_the_top():
    assert paths.parents("/brokers/topics/t") == ["/brokers", "/brokers/topics"]
    assert paths.parents("/controller") == []
