"""Settings have Kafka's names and defaults; what is wrong is named."""

import pytest

from oncelog.broker.config.configuration import Settings, parse_settings, topic_values
from oncelog.broker.config.setting import SettingError, text_of
from oncelog.broker.config.settings import BROKER_SETTINGS, TOPIC_SETTINGS


def test_unknown_name_is_refused_and_the_nearest_one_named() -> None:
    with pytest.raises(SettingError, match=r"num\.partition is no broker setting; the nearest is num\.partitions"):
        Settings({"num.partition": "3"})


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("num.partitions", "0", "at least 1"),
        ("num.partitions", "many", "not a whole number"),
        ("auto.create.topics.enable", "yes", "true or false"),
        ("log.message.timestamp.type", "Now", "CreateTime, LogAppendTime"),
        ("log.segment.bytes", str(2**31), "at most"),
    ],
)
def test_wrong_value_is_refused_with_the_name_the_value_and_what_is_allowed(name: str, value: str, what: str) -> None:
    with pytest.raises(SettingError, match=what) as refused:
        Settings({name: value})
    assert f"{name}={value}" in str(refused.value)


def test_every_setting_has_a_default_that_it_would_take_itself() -> None:
    for table in (BROKER_SETTINGS, TOPIC_SETTINGS):
        defaults = {name: text for name, setting in table.items() if (text := text_of(setting.default)) is not None}
        assert parse_settings(defaults, table, "") == {name: table[name].default for name in defaults}


def test_topic_setting_is_refused_under_its_own_name() -> None:
    with pytest.raises(SettingError, match=r"segment\.bytes=5"):
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


def test_item_that_comes_twice_in_a_list_counts_once() -> None:
    assert parse_settings({"cleanup.policy": "compact, compact ,delete"}, TOPIC_SETTINGS, "topic") == {
        "cleanup.policy": "compact,delete"
    }
