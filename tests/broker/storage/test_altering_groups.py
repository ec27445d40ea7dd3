"""Changing the settings of groups: checked as Kafka checks them, kept, and within the bounds that the broker has now."""

from __future__ import annotations

import logging

import pytest
from kio.schema.errors import ErrorCode

from harness.broker_in_memory import BrokerInMemory, SteppedDisk
from harness.manual_clock import ManualClock
from oncelog.broker.config.group_configuration import GROUP_SETTINGS
from tests.broker.storage.test_altering import (
    APPEND,
    DEFAULT,
    DELETE,
    DYNAMIC_BROKER,
    SET,
    STATIC,
    SUBTRACT,
    alter,
    described,
    replace,
    value_of,
)

NONE = ErrorCode.none
INVALID_CONFIG, INVALID_REQUEST = ErrorCode.invalid_config, ErrorCode.invalid_request
GROUP, DYNAMIC_GROUP = 32, 8
SESSION, HEARTBEAT, INTERVAL = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.assignment.interval.ms",
)
SHORT_SESSIONS = {"group_consumer_min_session_timeout_ms": "1000", "group_consumer_session_timeout_ms": "7000"}


@pytest.fixture
def broker() -> BrokerInMemory:
    return BrokerInMemory(SteppedDisk(), ManualClock())


def own(broker: BrokerInMemory, group: str) -> dict[str, str]:
    return {
        name: entry.value
        for name, entry in described(broker, GROUP, group).items()
        if entry.config_source == DYNAMIC_GROUP
    }


def listed(broker: BrokerInMemory) -> set[str]:
    answer = broker.ask("list_config_resources", 1, resource_types=[GROUP])
    return {item.resource_name for item in answer.config_resources}


def test_settings_that_were_acknowledged_survive_a_power_cut(broker: BrokerInMemory) -> None:
    assert alter(broker, GROUP, "g", (SESSION, SET, " 50000 "), (HEARTBEAT, SET, "6000")) is NONE
    broker.disk.crash()
    broker.restart()
    assert own(broker, "g") == {SESSION: "50000", HEARTBEAT: "6000"}
    assert alter(broker, GROUP, "g", (SESSION, DELETE, None)) is NONE
    broker.disk.crash()
    broker.restart()
    assert (own(broker, "g"), listed(broker)) == ({HEARTBEAT: "6000"}, {"g"})
    assert alter(broker, GROUP, "g", (HEARTBEAT, DELETE, None)) is NONE
    assert listed(broker) == set()
    broker.disk.crash()
    broker.restart()
    assert (own(broker, "g"), listed(broker)) == ({}, set())


@pytest.mark.parametrize("version", [0, 1, 2])
def test_settings_that_are_replaced_go_when_they_are_not_named(broker: BrokerInMemory, version: int) -> None:
    assert alter(broker, GROUP, "g", (SESSION, SET, "50000")) is NONE
    assert replace(broker, GROUP, "g", version, consumer_heartbeat_interval_ms="6000") is NONE
    assert own(broker, "g") == {HEARTBEAT: "6000"}
    assert replace(broker, GROUP, "g", version) is NONE
    assert own(broker, "g") == {}


def test_validation_changes_nothing(broker: BrokerInMemory) -> None:
    assert alter(broker, GROUP, "g", (SESSION, SET, "50000"), validate_only=True) is NONE
    assert alter(broker, GROUP, "g", (SESSION, SET, "1"), validate_only=True) is INVALID_CONFIG
    assert (own(broker, "g"), listed(broker)) == ({}, set())


@pytest.mark.parametrize(
    ("steps", "error"),
    [
        ([(SESSION, SET, "45000")], NONE),
        ([(SESSION, SET, "44999")], INVALID_CONFIG),
        ([(SESSION, SET, "60001")], INVALID_CONFIG),
        ([(SESSION, SET, "soon")], INVALID_CONFIG),
        ([(SESSION, SET, "99999999999")], INVALID_CONFIG),
        ([(HEARTBEAT, SET, "4999")], INVALID_CONFIG),
        ([(HEARTBEAT, SET, "15000")], NONE),
        ([(HEARTBEAT, SET, "15001")], INVALID_CONFIG),
        ([(INTERVAL, SET, "0")], NONE),
        ([(INTERVAL, SET, "-1")], INVALID_CONFIG),
        ([(INTERVAL, SET, "15001")], INVALID_CONFIG),
        ([(SESSION, APPEND, "45000")], INVALID_CONFIG),
        ([(SESSION, SUBTRACT, "45000")], INVALID_CONFIG),
        ([(SESSION, SET, None)], INVALID_REQUEST),
        ([(SESSION, SET, "45000"), (SESSION, SET, "46000")], INVALID_REQUEST),
        ([(SESSION, DELETE, None)], NONE),
        ([("no.such", SET, "1")], INVALID_CONFIG),
        ([("no.such", DELETE, None)], NONE),
        ([("retention.ms", SET, "1")], INVALID_CONFIG),
        ([("share.isolation.level", SET, "none")], INVALID_CONFIG),
        ([("share.auto.offset.reset", SET, "by_duration:P1DT0.5S")], NONE),
        ([("share.auto.offset.reset", SET, "by_duration:P1Y")], INVALID_CONFIG),
        ([("share.auto.offset.reset", SET, "by_duration:P")], INVALID_CONFIG),
        ([("share.auto.offset.reset", SET, "sometime")], INVALID_CONFIG),
        ([("streams.num.standby.replicas", SET, "3")], INVALID_CONFIG),
    ],
)
def test_setting_is_taken_or_refused_as_kafka_does(
    broker: BrokerInMemory, steps: list[tuple[str, int, str | None]], error: ErrorCode
) -> None:
    assert alter(broker, GROUP, "g", *steps) is error
    taken = {name: value for name, operation, value in steps if operation == SET and error is NONE}
    assert own(broker, "g") == taken


def test_groups_have_no_settings_in_common(broker: BrokerInMemory) -> None:
    assert alter(broker, GROUP, "", (SESSION, SET, "50000")) is INVALID_REQUEST
    resource = {"resource_type": GROUP, "resource_name": "", "configuration_keys": None}
    answer = broker.ask("describe_configs", 4, resources=[resource], include_synonyms=True, include_documentation=True)
    assert answer.results[0].error_code is INVALID_REQUEST


def test_interval_of_a_group_is_less_than_its_session_wherever_that_comes_from() -> None:
    broker = BrokerInMemory(SteppedDisk(), ManualClock(), **SHORT_SESSIONS)
    assert alter(broker, GROUP, "g", (HEARTBEAT, SET, "7000")) is INVALID_CONFIG
    assert alter(broker, GROUP, "g", (SESSION, SET, "5000")) is INVALID_CONFIG
    assert alter(broker, GROUP, "g", (HEARTBEAT, SET, "7000"), (SESSION, SET, "7001")) is NONE
    assert alter(broker, GROUP, "g", (SESSION, DELETE, None)) is INVALID_CONFIG
    assert own(broker, "g") == {HEARTBEAT: "7000", SESSION: "7001"}


def test_sources_are_the_groups_own_value_and_then_those_of_the_broker() -> None:
    broker = BrokerInMemory(SteppedDisk(), ManualClock(), **SHORT_SESSIONS)
    common = [(f"group.{SESSION}", "7000", STATIC), (f"group.{SESSION}", "45000", DEFAULT)]

    def sources(name: str) -> list[tuple[str, str, int]]:
        entry = described(broker, GROUP, "g", name)[name]
        return [(item.name, item.value, item.source) for item in entry.synonyms]

    assert sources(SESSION) == common
    assert value_of(broker, GROUP, "g", SESSION) == ("7000", STATIC)
    alter(broker, GROUP, "g", (SESSION, SET, "8000"))
    assert sources(SESSION) == [(SESSION, "8000", DYNAMIC_GROUP), *common]
    assert sources("share.isolation.level") == [("share.isolation.level", "read_uncommitted", DEFAULT)]
    assert value_of(broker, GROUP, "other", SESSION) == ("7000", STATIC)


def test_every_entry_says_what_it_is(broker: BrokerInMemory) -> None:
    entries = described(broker, GROUP, "g")
    assert entries.keys() == GROUP_SETTINGS.keys()
    assert all(entry.documentation and not entry.read_only for entry in entries.values())


def test_group_and_broker_of_one_name_have_nothing_in_common(broker: BrokerInMemory) -> None:
    assert alter(broker, GROUP, "1", (SESSION, SET, "50000")) is NONE
    assert DYNAMIC_BROKER not in {entry.config_source for entry in described(broker, 4, "1").values()}


def test_broker_that_was_started_with_other_bounds_keeps_to_them(caplog: pytest.LogCaptureFixture) -> None:
    """As Kafka does: the settings stay as they are, and any change has to mend them."""
    disk = SteppedDisk()
    broker = BrokerInMemory(disk, ManualClock(), **SHORT_SESSIONS)
    assert alter(broker, GROUP, "g", (SESSION, SET, "6000"), (INTERVAL, SET, "3000")) is NONE
    broker.core.stop()
    with caplog.at_level(logging.WARNING, "oncelog.broker"):
        again = BrokerInMemory(disk, ManualClock(), group_consumer_max_assignment_interval_ms="2000")
    assert own(again, "g") == {SESSION: "6000", INTERVAL: "3000"}
    limits = again.core.group_configs.of("g")
    assert (limits.session_timeout_ms, limits.assignment_interval_ms) == (45_000, 2_000)
    assert "consumer.session.timeout.ms is 6000, and counts as 45000" in caplog.text
    assert alter(again, GROUP, "g", (HEARTBEAT, SET, "6000")) is INVALID_CONFIG
    assert alter(again, GROUP, "g", (SESSION, DELETE, None), (INTERVAL, DELETE, None)) is NONE
    assert again.core.group_configs.of("g").session_timeout_ms == 45_000


def test_group_whose_session_became_too_short_is_named_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    disk = SteppedDisk()
    broker = BrokerInMemory(disk, ManualClock())
    assert alter(broker, GROUP, "g", (HEARTBEAT, SET, "15000")) is NONE
    broker.core.stop()
    with caplog.at_level(logging.WARNING, "oncelog.broker"):
        again = BrokerInMemory(disk, ManualClock(), **SHORT_SESSIONS)
    assert "group g loses members that are well" in caplog.text
    assert again.core.group_configs.of("g").heartbeat_interval_ms == 15_000
