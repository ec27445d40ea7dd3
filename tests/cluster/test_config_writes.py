"""Settings are written as Apache Kafka 3.9.1 writes them; its requests are quoted here from a cluster of its brokers."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from oncelog.cluster.config_writes import change_configs
from oncelog.cluster.zookeeper.asking import SessionEndedError
from oncelog.cluster.zookeeper.session import Check, Create, Delete, GetData, Multi, SetData, ZooKeeperError
from oncelog.cluster.zookeeper.znodes import ConfigEntity, paths
from oncelog.coordination import start


def change(member, entity_type, name, **configs):
    given = {key.replace("_", "."): value for key, value in configs.items()}
    return member.wait(start(change_configs(member.zookeeper, ConfigEntity(entity_type, name), given)))


def test_settings_that_are_there_are_replaced_and_told_of(member):
    member.ask_zookeeper(Create("/config/topics/plain", b'{"version":1,"config":{}}'))
    assert change(member, "topics", "plain", retention_ms="7200000", max_message_bytes="2000000") is None
    configs = b'{"version":1,"config":{"max.message.bytes":"2000000","retention.ms":"7200000"}}'
    assert member.zookeeper.asked[:3] == [
        GetData("/controller"),
        Multi((Check("/controller", 0), SetData("/config/topics/plain", configs))),
        Create("/config/changes/config_change_", b'{"version":2,"entity_path":"topics/plain"}', is_sequential=True),
    ]
    assert member.children("/config/changes") == ("config_change_0000000000",)


@pytest.mark.parametrize("name", ["1", "<default>"])
def test_settings_that_were_not_there_are_made_and_told_of(member, name):
    assert change(member, "brokers", name, log_cleaner_threads="2") is None
    configs = b'{"version":1,"config":{"log.cleaner.threads":"2"}}'
    told = f'{{"version":2,"entity_path":"brokers/{name}"}}'.encode()
    assert member.zookeeper.asked[:4] == [
        GetData("/controller"),
        Multi((Check("/controller", 0), SetData(f"/config/brokers/{name}", configs))),
        Create(f"/config/brokers/{name}", configs),
        Create("/config/changes/config_change_", told, is_sequential=True),
    ]


def test_settings_that_another_broker_makes_at_the_same_time_are_replaced(member):
    member.zookeeper.lose_answer(Create)
    assert change(member, "topics", "t", retention_ms="1") is None
    assert member.data("/config/topics/t") == b'{"version":1,"config":{"retention.ms":"1"}}'


def test_nothing_is_written_without_a_controller(member):
    """KafkaZkClient.setOrCreateEntityConfigs raises ControllerMovedException then, which is STALE_CONTROLLER_EPOCH."""
    member.ask_zookeeper(Delete(paths.CONTROLLER))
    refused = change(member, "topics", "t")
    assert refused == (
        ErrorCode.stale_controller_epoch,
        "Cannot set entity configs for topics t when there is no controller.",
    )
    assert member.zookeeper.writes == []


def test_session_that_ends_voids_the_write(member):
    member.zookeeper.lose_answer(Multi, ZooKeeperError.SESSION_EXPIRED)
    with pytest.raises(SessionEndedError):
        change(member, "topics", "t")
