"""The settings of groups (KIP-848, KIP-1142), on our broker and on Apache Kafka: the same questions, the same answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kio.schema.errors import ErrorCode

from harness.conformance.consumer_member import ConsumerMember
from harness.processes import BrokerProcess
from harness.waiting import TIMEOUT_SECONDS, until
from harness.wire import Connection

GROUP = 32
SET, DELETE, APPEND, SUBTRACT = range(4)
STATIC, DEFAULT, DYNAMIC_GROUP = 4, 5, 8
SESSION, HEARTBEAT, INTERVAL = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.assignment.interval.ms",
)
Step = tuple[str, int, str | None]


class GroupSettings:
    """One connection, and the settings of groups over it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def alter(self, group: str, *steps: Step, validate_only: bool = False) -> str:
        configs = [{"name": name, "config_operation": operation, "value": value} for name, operation, value in steps]
        return self._altered("incremental_alter_configs", 1, group, configs, validate_only)

    def replace(self, group: str, values: dict[str, str | None], validate_only: bool = False) -> str:
        configs = [{"name": name, "value": value} for name, value in values.items()]
        return self._altered("alter_configs", 2, group, configs, validate_only)

    def _altered(self, api: str, version: int, group: str, configs: list[dict[str, Any]], validate_only: bool) -> str:
        resource = {"resource_type": GROUP, "resource_name": group, "configs": configs}
        (answer,) = self._connection.ask(api, version, resources=[resource], validate_only=validate_only).responses
        return str(answer.error_code.name)

    def describe(self, group: str, *names: str) -> Any:
        resource = {"resource_type": GROUP, "resource_name": group, "configuration_keys": names or None}
        asked = {"include_synonyms": True, "include_documentation": False}
        return self._connection.ask("describe_configs", 4, resources=[resource], **asked).results[0]

    def own(self, group: str) -> dict[str, str]:
        return {
            entry.name: entry.value for entry in self.describe(group).configs if entry.config_source == DYNAMIC_GROUP
        }

    def sources(self, group: str, name: str) -> list[tuple[str, str, int]]:
        (entry,) = self.describe(group, name).configs
        assert entry.config_source == entry.synonyms[0].source
        return [(item.name, item.value, item.source) for item in entry.synonyms]

    def listed(self) -> set[str]:
        answer = self._connection.ask("list_config_resources", 1, resource_types=[GROUP])
        return {item.resource_name for item in answer.config_resources}


@pytest.fixture
def settings(log: BrokerProcess) -> Iterator[GroupSettings]:
    connection = Connection(log.bootstrap_servers)
    yield GroupSettings(connection)
    connection.close()


@pytest.mark.parametrize(
    ("steps", "error"),
    [
        ([(SESSION, SET, " 11000 ")], "none"),
        ([(SESSION, SET, "9999")], "invalid_config"),
        ([(SESSION, SET, "60000")], "none"),
        ([(SESSION, SET, "60001")], "invalid_config"),
        ([(SESSION, SET, "0")], "invalid_config"),
        ([(SESSION, SET, "soon")], "invalid_config"),
        ([(SESSION, SET, "")], "invalid_config"),
        ([(SESSION, SET, "99999999999")], "invalid_config"),
        ([(HEARTBEAT, SET, "199")], "invalid_config"),
        ([(HEARTBEAT, SET, "9999")], "none"),
        ([(HEARTBEAT, SET, "10000")], "invalid_config"),
        ([(HEARTBEAT, SET, "10000"), (SESSION, SET, "10001")], "none"),
        ([(HEARTBEAT, SET, "15001"), (SESSION, SET, "60000")], "invalid_config"),
        ([(INTERVAL, SET, "-1")], "invalid_config"),
        ([(INTERVAL, SET, "0")], "none"),
        ([(INTERVAL, SET, "15001")], "invalid_config"),
        ([("consumer.assignor.offload.enable", SET, "true")], "invalid_config"),
        ([(SESSION, APPEND, "11000")], "invalid_config"),
        ([(SESSION, SUBTRACT, "11000")], "invalid_config"),
        ([(SESSION, SET, None)], "invalid_request"),
        ([(SESSION, SET, "11000"), (SESSION, SET, "12000")], "invalid_request"),
        ([(SESSION, DELETE, None)], "none"),
        ([("no.such", SET, "1")], "invalid_config"),
        ([("no.such", APPEND, "1")], "invalid_config"),
        ([("no.such", DELETE, None)], "none"),
        ([("retention.ms", SET, "1")], "invalid_config"),
        ([("share.session.timeout.ms", SET, "44999")], "invalid_config"),
        ([("share.session.timeout.ms", SET, "60000")], "none"),
        ([("share.heartbeat.interval.ms", SET, "4999")], "invalid_config"),
        ([("share.assignment.interval.ms", SET, "15001")], "invalid_config"),
        ([("share.record.lock.duration.ms", SET, "14999")], "invalid_config"),
        ([("share.record.lock.duration.ms", SET, "60001")], "invalid_config"),
        ([("share.delivery.count.limit", SET, "1")], "invalid_config"),
        ([("share.delivery.count.limit", SET, "11")], "invalid_config"),
        ([("share.partition.max.record.locks", SET, "99")], "invalid_config"),
        ([("share.partition.max.record.locks", SET, "10001")], "invalid_config"),
        ([("share.isolation.level", SET, "READ_COMMITTED")], "invalid_config"),
        ([("share.isolation.level", SET, "read_committed")], "none"),
        ([("share.renew.acknowledge.enable", SET, "FALSE")], "none"),
        ([("share.renew.acknowledge.enable", SET, "perhaps")], "invalid_config"),
        ([("share.auto.offset.reset", SET, "by_duration:P1DT2H3M4.5S")], "none"),
        ([("share.auto.offset.reset", SET, "by_duration:pt1h")], "none"),
        ([("share.auto.offset.reset", SET, "by_duration:P1D")], "none"),
        ([("share.auto.offset.reset", SET, "by_duration:P1Y")], "invalid_config"),
        ([("share.auto.offset.reset", SET, "by_duration:PT")], "invalid_config"),
        ([("share.auto.offset.reset", SET, "by_duration:P")], "invalid_config"),
        ([("share.auto.offset.reset", SET, "by_duration:-PT1H")], "invalid_config"),
        ([("share.auto.offset.reset", SET, "EARLIEST")], "invalid_config"),
        ([("streams.session.timeout.ms", SET, "60001")], "invalid_config"),
        ([("streams.heartbeat.interval.ms", SET, "15001")], "invalid_config"),
        ([("streams.assignment.interval.ms", SET, "15001")], "invalid_config"),
        ([("streams.initial.rebalance.delay.ms", SET, "2147483647")], "none"),
        ([("streams.num.standby.replicas", SET, "2")], "none"),
        ([("streams.num.standby.replicas", SET, "3")], "invalid_config"),
    ],
    ids=str,
)
def test_change_is_taken_or_refused_with_the_same_error(settings: GroupSettings, steps: list[Step], error: str) -> None:
    assert settings.alter("nobody", *steps, validate_only=True) == error
    assert "nobody" not in settings.listed()


def test_groups_have_no_settings_in_common(settings: GroupSettings) -> None:
    assert settings.alter("", (SESSION, SET, "11000")) == "invalid_request"
    assert settings.replace("", {}) == "invalid_request"
    assert settings.describe("").error_code is ErrorCode.invalid_request


def test_values_are_those_of_the_group_and_then_those_of_the_broker(settings: GroupSettings, unique: str) -> None:
    name = f"the readers of {unique}"
    common = [(f"group.{SESSION}", "10000", STATIC), (f"group.{SESSION}", "45000", DEFAULT)]
    assert settings.sources(name, SESSION) == common
    assert settings.sources(name, "share.isolation.level") == [("share.isolation.level", "read_uncommitted", DEFAULT)]
    assert settings.alter(name, (SESSION, SET, " 12000 ")) == "none"
    until(lambda: settings.own(name) == {SESSION: "12000"})
    assert settings.sources(name, SESSION) == [(SESSION, "12000", DYNAMIC_GROUP), *common]


def test_settings_are_changed_one_by_one_and_all_at_once(settings: GroupSettings, unique: str) -> None:
    assert settings.alter(unique, (SESSION, SET, "12000"), (HEARTBEAT, SET, "11000")) == "none"
    until(lambda: settings.own(unique) == {SESSION: "12000", HEARTBEAT: "11000"})
    assert unique in settings.listed()
    assert settings.alter(unique, (SESSION, DELETE, None)) == "invalid_config"
    assert settings.replace(unique, {SESSION: None}) == "invalid_request"
    assert settings.replace(unique, {SESSION: "1"}, validate_only=True) == "invalid_config"
    assert settings.replace(unique, {INTERVAL: "500"}, validate_only=True) == "none"
    assert settings.own(unique) == {SESSION: "12000", HEARTBEAT: "11000"}
    assert settings.replace(unique, {INTERVAL: "500"}) == "none"
    until(lambda: settings.own(unique) == {INTERVAL: "500"})
    assert settings.replace(unique, {}) == "none"
    until(lambda: unique not in settings.listed())


# --- what they do


@pytest.fixture
def new_member(log: BrokerProcess) -> Iterator[Callable[[str], ConsumerMember]]:
    members: list[ConsumerMember] = []

    def make(group: str) -> ConsumerMember:
        members.append(ConsumerMember(log, group))
        return members[-1]

    yield make
    for member in members:
        member.connection.close()


def test_interval_is_that_of_the_group_from_the_next_heartbeat_on(
    settings: GroupSettings,
    group: str,
    new_topic: Callable[..., str],
    new_member: Callable[[str], ConsumerMember],
) -> None:
    member, other = new_member(group), new_member(f"{group}-other")
    topic = new_topic()
    until(lambda: member.join(topic).error_code is ErrorCode.none)
    until(lambda: other.join(topic).error_code is ErrorCode.none)

    def interval(of: ConsumerMember) -> float:
        return float(of.beat().heartbeat_interval.total_seconds())

    assert interval(member) == 0.2
    assert settings.alter(group, (HEARTBEAT, SET, "700")) == "none"
    until(lambda: interval(member) == 0.7)
    assert interval(other) == 0.2
    assert member.leave().error_code is ErrorCode.none
    assert member.ask("delete_groups", 2, groups_names=[group]).results[0].error_code is ErrorCode.none
    assert settings.own(group) == {HEARTBEAT: "700"}
    assert settings.alter(group, (HEARTBEAT, DELETE, None)) == "none"
    member.epoch, member.owned = 0, {}
    until(lambda: member.join(topic).heartbeat_interval.total_seconds() == 0.2)


@pytest.mark.drawn(6)
def test_silent_member_is_taken_out_after_the_session_of_its_group(
    settings: GroupSettings,
    group: str,
    new_topic: Callable[..., str],
    new_member: Callable[[str], ConsumerMember],
) -> None:
    """The broker's own session is shorter: one is taken out after it, and the other, which was silent before, is not."""
    patient, member = new_member(group), new_member(f"{group}-other")
    topic = new_topic()
    assert settings.alter(group, (SESSION, SET, "60000"), (HEARTBEAT, SET, "700")) == "none"
    until(lambda: patient.join(topic).heartbeat_interval.total_seconds() == 0.7)
    until(lambda: member.join(topic).error_code is ErrorCode.none)
    until(lambda: member.describe().members == ())
    assert [one.member_id for one in patient.describe().members] == [patient.member_id]
    assert settings.replace(group, {}) == "none"


# --- with a client of theirs


def test_confluent_changes_the_settings_of_a_group(log: BrokerProcess, settings: GroupSettings, unique: str) -> None:
    admin = AdminClient({"bootstrap.servers": log.bootstrap_servers})

    def alter(value: str | None, operation: AlterConfigOpType) -> None:
        entry = ConfigEntry(SESSION, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.GROUP, unique, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_SECONDS)

    alter("12000", AlterConfigOpType.SET)
    until(lambda: settings.own(unique) == {SESSION: "12000"})
    resource = ConfigResource(ResourceType.GROUP, unique)
    described = admin.describe_configs([resource])[resource].result(TIMEOUT_SECONDS)
    assert (described[SESSION].value, described[SESSION].source) == ("12000", DYNAMIC_GROUP)
    alter(None, AlterConfigOpType.DELETE)
    until(lambda: settings.own(unique) == {})
