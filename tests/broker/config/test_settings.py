"""Settings have Kafka's names and defaults; what is wrong is named."""

import pytest

from oncelog.broker.config.configuration import (
    Settings,
    SettingSource,
    check_topic,
    parse_settings,
    source_for_new_topic,
    topic_values,
)
from oncelog.broker.config.setting import SettingError, text_of
from oncelog.broker.config.settings import BROKER_SETTINGS, TOPIC_SETTINGS


def test_unknown_name_is_refused_and_the_nearest_one_named() -> None:
    with pytest.raises(SettingError, match=r"num\.partition is no broker setting; the nearest is num\.partitions"):
        Settings({"num.partition": "3"})


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("num.partitions", "0", "Value must be at least 1"),
        ("num.partitions", "many", "Not a number of type INT"),
        ("num.partitions", "1_0", "Not a number of type INT"),
        ("log.cleaner.io.buffer.load.factor", "1_0.5", "Not a number of type DOUBLE"),
        ("auto.create.topics.enable", "yes", "Expected value to be either true or false"),
        ("log.message.timestamp.type", "Now", "String must be one of: CreateTime, LogAppendTime"),
        ("log.segment.bytes", str(2**31), "Not a number of type INT"),
        ("compression.lz4.level", "18", "Value must be no more than 17"),
    ],
)
def test_wrong_value_is_refused_with_the_name_the_value_and_what_is_allowed(name: str, value: str, what: str) -> None:
    with pytest.raises(SettingError, match=what) as refused:
        Settings({name: value})
    assert str(refused.value).startswith(f"Invalid value {value} for configuration {name}: ")


def test_every_setting_has_a_default_that_it_would_take_itself() -> None:
    for table in (BROKER_SETTINGS, TOPIC_SETTINGS):
        defaults = {name: text for name, setting in table.items() if (text := text_of(setting.default)) is not None}
        assert parse_settings(defaults, table, "") == {name: table[name].default for name in defaults}


def test_topic_setting_is_refused_under_its_own_name() -> None:
    with pytest.raises(SettingError, match=r"for configuration segment\.bytes: "):
        parse_settings({"segment.bytes": "5"}, TOPIC_SETTINGS, "topic")


@pytest.mark.parametrize(
    ("given", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "5"}, 5),
        ({"log.retention.hours": "2", "log.retention.ms": "-1"}, -1),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_finer_unit_has_precedence(given: dict[str, str], retention_ms: int) -> None:
    """Kafka's log.retention.hours: "secondary to log.retention.minutes property", and that to log.retention.ms."""
    assert topic_values(Settings(given), {})["retention.ms"] == retention_ms


def test_time_for_which_a_segment_is_open_has_two_units() -> None:
    assert topic_values(Settings({"log.roll.hours": "2"}), {})["segment.ms"] == 7_200_000
    assert topic_values(Settings({"log.roll.hours": "2", "log.roll.ms": "9"}), {})["segment.ms"] == 9


def test_broker_id_is_another_name_of_node_id() -> None:
    assert Settings({"broker.id": "5"}).number("node.id") == 5
    assert Settings({"broker.id": "5", "node.id": "5"}).number("node.id") == 5
    with pytest.raises(SettingError, match=r"broker\.id=5 is not allowed beside node\.id=6"):
        Settings({"broker.id": "5", "node.id": "6"})


def test_node_id_is_another_name_of_broker_id() -> None:
    assert Settings({"node.id": "5"}).number("broker.id") == 5
    settings = Settings()
    assert settings.number("broker.id") == -1
    settings.name_node(7)
    assert settings.number("broker.id") == 7


def test_topic_may_keep_records_for_no_time_where_the_broker_may_not() -> None:
    assert parse_settings({"retention.ms": "0"}, TOPIC_SETTINGS, "topic") == {"retention.ms": 0}
    with pytest.raises(SettingError, match="unlimited"):
        Settings({"log.retention.ms": "0"})


def test_new_topic_is_said_to_have_what_the_start_gave_in_other_units() -> None:
    settings = Settings({"log.roll.hours": "2"})
    assert source_for_new_topic(settings, {}, "segment.ms") is SettingSource.STATIC_BROKER_CONFIG
    assert source_for_new_topic(settings, {"segment.ms": 5}, "segment.ms") is SettingSource.DYNAMIC_TOPIC_CONFIG
    assert source_for_new_topic(settings, {}, "retention.ms") is SettingSource.DEFAULT_CONFIG
    assert source_for_new_topic(settings, {}, "remote.storage.enable") is SettingSource.DEFAULT_CONFIG


def test_own_setting_of_a_topic_is_checked_beside_that_of_the_broker() -> None:
    settings = Settings({"log.cleaner.min.compaction.lag.ms": "10"})
    check_topic(settings, {"max.compaction.lag.ms": "10"})
    with pytest.raises(SettingError, match="conflict topic config setting"):
        check_topic(settings, {"max.compaction.lag.ms": "9"})


def test_item_that_comes_twice_in_a_list_counts_once() -> None:
    assert parse_settings({"cleanup.policy": "compact, compact ,delete"}, TOPIC_SETTINGS, "topic") == {
        "cleanup.policy": "compact,delete"
    }
