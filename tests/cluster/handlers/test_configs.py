"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs in a cluster: settings are those that ZooKeeper has."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from oncelog.cluster import altering
from oncelog.cluster.zookeeper.session import Check, Create, GetData, Multi, SetData, ZooKeeperError
from oncelog.cluster.zookeeper.znodes import decode_config, encode_config, paths

NONE = ErrorCode.none
TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = range(1, 6)


@pytest.fixture
def member(member):
    member.make("t", {0: (0, 1, 2)})
    return member


def send(member, kind, name, *steps, validate_only=False):
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in steps]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    return member.send("incremental_alter_configs", 1, resources=[resource], validate_only=validate_only)


def outcome(member, reply):
    (result,) = member.answer(reply).responses
    return result.error_code, result.error_message


def alter(member, kind, name, *steps, **fields):
    return outcome(member, send(member, kind, name, *steps, **fields))


def replace(member, kind, name, **values):
    configs = [{"name": key.replace("_", "."), "value": value} for key, value in values.items()]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    return outcome(member, member.send("alter_configs", 2, resources=[resource], validate_only=False))


def described(member, kind, name, *keys):
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys) or None}
    answer = member.ask(
        "describe_configs", 4, resources=[resource], include_synonyms=False, include_documentation=False
    )
    (result,) = answer.results
    return result.error_code, {entry.name: (entry.value, entry.config_source) for entry in result.configs}


def stored(member, entity_type, name):
    return decode_config(entity_type, name, member.data(paths.config(entity_type, name)) or b"")


def store(member, entity_type, name, **configs):
    data = encode_config({key.replace("_", "."): value for key, value in configs.items()})
    path = paths.config(entity_type, name)
    if member.ask_zookeeper(SetData(path, data)) is ZooKeeperError.NO_NODE:
        member.ask_zookeeper(Create(path, data))


def test_setting_of_a_topic_is_written_told_of_and_applied(member):
    assert alter(member, TOPIC, "t", ("retention.ms", SET, "7200000")) == (NONE, None)
    changed = encode_config({"retention.ms": "7200000"})
    change = Create("/config/changes/config_change_", b'{"version":2,"entity_path":"topics/t"}', is_sequential=True)
    assert member.zookeeper.writes == [
        Multi((Check("/controller", 0), SetData("/config/topics/t", changed))),
        change,
    ]
    assert member.topics.named("t").values["retention.ms"] == 7_200_000
    assert described(member, TOPIC, "t", "retention.ms") == (NONE, {"retention.ms": ("7200000", DYNAMIC_TOPIC)})


def test_every_broker_changes_topics_and_says_what_another_has_changed(member):
    member.is_active = False
    assert alter(member, TOPIC, "t", ("retention.ms", SET, "7200000")) == (NONE, None)
    store(member, "topics", "t", retention_ms="1")
    assert described(member, TOPIC, "t", "retention.ms") == (NONE, {"retention.ms": ("1", DYNAMIC_TOPIC)})


def test_change_begins_with_what_zookeeper_has(member):
    store(member, "topics", "t", retention_ms="1", segment_ms="100000")
    alter(member, TOPIC, "t", ("retention.ms", DELETE, None), ("cleanup.policy", APPEND, "compact"))
    assert stored(member, "topics", "t") == {"segment.ms": "100000", "cleanup.policy": "delete,compact"}
    assert replace(member, TOPIC, "t", retention_ms="5") == (NONE, None)
    assert stored(member, "topics", "t") == {"retention.ms": "5"}


def test_setting_that_is_not_known_here_is_kept(member):
    """A newer broker of the cluster may know it."""
    store(member, "topics", "t", some_new_setting="1", segment_bytes="many")
    assert alter(member, TOPIC, "t", ("retention.ms", SET, "5")) == (NONE, None)
    kept = {"some.new.setting": "1", "segment.bytes": "many"}
    assert stored(member, "topics", "t") == kept | {"retention.ms": "5"}
    assert member.topics.named("t").configs == {"retention.ms": "5"}
    error, values = described(member, TOPIC, "t")
    assert (error, values["retention.ms"]) == (NONE, ("5", DYNAMIC_TOPIC))
    assert alter(member, TOPIC, "t", ("some.new.setting", SET, "2"))[0] is ErrorCode.invalid_config
    assert alter(member, TOPIC, "t", ("some.new.setting", DELETE, None)) == (NONE, None)
    assert stored(member, "topics", "t") == {"segment.bytes": "many", "retention.ms": "5"}


def test_settings_of_this_broker_and_of_every_one_are_written_and_applied(member):
    assert alter(member, BROKER, "0", ("log.retention.ms", SET, "5000")) == (NONE, None)
    assert alter(member, BROKER, "", ("log.retention.ms", SET, "1000")) == (NONE, None)
    assert stored(member, "brokers", "0") == {"log.retention.ms": "5000"}
    assert stored(member, "brokers", "<default>") == {"log.retention.ms": "1000"}
    assert described(member, BROKER, "0", "log.retention.ms")[1] == {"log.retention.ms": ("5000", DYNAMIC_BROKER)}
    assert described(member, BROKER, "", "log.retention.ms")[1] == {"log.retention.ms": ("1000", DYNAMIC_DEFAULT)}
    assert member.topics.named("t").values["retention.ms"] == 5000
    told = [one.data for one in member.zookeeper.writes if isinstance(one, Create) and one.is_sequential]
    assert told == [b'{"version":2,"entity_path":"brokers/0"}', b'{"version":2,"entity_path":"brokers/<default>"}']


def test_setting_of_brokers_that_means_nothing_here_is_stored_for_those_that_know_it(member):
    """A reassignment with a throttle begins with these, and ends if a broker refuses them."""
    for name in ("leader.replication.throttled.rate", "follower.replication.throttled.rate"):
        assert alter(member, BROKER, "0", (name, SET, "1000")) == (NONE, None)
    assert stored(member, "brokers", "0") == {
        "leader.replication.throttled.rate": "1000",
        "follower.replication.throttled.rate": "1000",
    }


def test_broker_changes_and_describes_itself_only(member):
    assert alter(member, BROKER, "1", ("log.retention.ms", SET, "5000")) == (
        ErrorCode.invalid_request,
        "Unexpected broker id, expected 0, but received 1",
    )
    assert described(member, BROKER, "1")[0] is ErrorCode.invalid_request
    assert member.zookeeper.asked == []


@pytest.mark.parametrize(
    ("kind", "name", "step", "error"),
    [
        (TOPIC, "none", ("retention.ms", SET, "1"), ErrorCode.unknown_topic_or_partition),
        (TOPIC, "a/b", ("retention.ms", SET, "1"), ErrorCode.unknown_topic_or_partition),
        (TOPIC, "none", ("retention.ms", SET, "much"), ErrorCode.unknown_topic_or_partition),
        (TOPIC, "", ("retention.ms", SET, "1"), ErrorCode.invalid_request),
        (TOPIC, "t", ("retention.ms", SET, "much"), ErrorCode.invalid_config),
        (TOPIC, "t", ("no.such.setting", SET, "1"), ErrorCode.invalid_config),
        (BROKER, "", ("sasl.kerberos.kinit.cmd", SET, "kinit"), ErrorCode.invalid_request),
        (TOPIC, "t", ("retention.ms", APPEND, "1"), ErrorCode.invalid_config),
        (BROKER, "0", ("node.id", SET, "5"), ErrorCode.invalid_request),
        (BROKER, "0", ("log.retention.ms", SET, "much"), ErrorCode.invalid_request),
        (BROKER, "0", ("listener.name.internal.ssl.key.password", SET, "secret"), ErrorCode.invalid_request),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "1"), ErrorCode.invalid_request),
    ],
)
def test_what_cannot_be_set_is_refused_and_not_written(member, kind, name, step, error):
    assert alter(member, kind, name, step)[0] is error
    assert member.zookeeper.writes == []


def test_topic_is_found_though_this_broker_was_not_told_of_it_yet(member):
    member.ask_zookeeper(Create(paths.topic("new"), b"{}"))
    assert alter(member, TOPIC, "new", ("retention.ms", SET, "1")) == (NONE, None)
    assert stored(member, "topics", "new") == {"retention.ms": "1"}


def test_check_alone_writes_nothing(member):
    assert alter(member, TOPIC, "t", ("retention.ms", SET, "1"), validate_only=True) == (NONE, None)
    assert alter(member, TOPIC, "t", ("retention.ms", SET, "much"), validate_only=True)[0] is ErrorCode.invalid_config
    assert member.zookeeper.writes == []


def test_two_changes_at_once_are_both_kept(member):
    first = send(member, TOPIC, "t", ("retention.ms", SET, "1"))
    second = send(member, TOPIC, "t", ("segment.ms", SET, "100000"))
    assert (outcome(member, first), outcome(member, second)) == ((NONE, None), (NONE, None))
    assert stored(member, "topics", "t") == {"retention.ms": "1", "segment.ms": "100000"}


def test_change_goes_on_without_the_client_that_asked_for_it(member):
    reply = send(member, TOPIC, "t", ("retention.ms", SET, "1"))
    reply.end()
    assert alter(member, TOPIC, "t", ("segment.ms", SET, "100000")) == (NONE, None)
    assert stored(member, "topics", "t") == {"retention.ms": "1", "segment.ms": "100000"}


@pytest.mark.parametrize("kind", [GetData, Multi, Create])
def test_lost_answer_is_asked_for_again(member, kind):
    member.zookeeper.lose_answer(kind)
    assert alter(member, TOPIC, "t", ("retention.ms", SET, "1")) == (NONE, None)
    assert stored(member, "topics", "t") == {"retention.ms": "1"}


def test_session_that_ends_is_told_as_something_to_try_again(member):
    member.zookeeper.lose_answer(Multi, ZooKeeperError.SESSION_EXPIRED)
    assert alter(member, TOPIC, "t", ("retention.ms", SET, "1")) == altering.SESSION_ENDED


def test_requests_wait_for_zookeeper_no_longer_than_clients_do(member, world, monkeypatch):
    monkeypatch.setattr("oncelog.cluster.altering.TIMEOUT_MS", 500)
    monkeypatch.setattr("oncelog.cluster.handlers.describe_configs.TIMEOUT_MS", 500)
    world.cut(member.client)
    assert alter(member, TOPIC, "t", ("retention.ms", SET, "1")) == altering.TIMED_OUT
    assert described(member, TOPIC, "t")[0] is ErrorCode.request_timed_out
    assert described(member, BROKER, "0")[0] is NONE
    world.mend(member.client)
    assert stored(member, "topics", "t") == {}


def test_topics_that_are_not_there_and_groups_are_not_described(member):
    assert described(member, TOPIC, "none")[0] is ErrorCode.unknown_topic_or_partition
    assert described(member, TOPIC, "a/b")[0] is ErrorCode.invalid_topic_exception
    assert described(member, GROUP, "g")[0] is ErrorCode.invalid_request
