"""Levels of protocol features: what may be chosen, what is told, and that transactions go on at every level."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.broker_in_memory import BrokerInMemory, SteppedDisk
from harness.consumer_group_requests import join_fields
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import (
    MINUTE,
    TV1,
    TV2,
    ProducerInMemory,
    Protocol,
    committed_offset,
    make_topic,
    visible,
)
from oncelog.records import batches, decode_batch

NAME = "transaction.version"
GROUP_NAME = "group.version"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


@pytest.fixture
def broker() -> BrokerInMemory:
    return BrokerInMemory(SteppedDisk(), ManualClock())


def update(broker: BrokerInMemory, *updates: tuple[str, int, int], version: int = 1, **fields: Any) -> ErrorCode:
    features = [{"feature": name, "max_version_level": level, "upgrade_type": kind} for name, level, kind in updates]
    return broker.ask("update_features", version, timeout=MINUTE, feature_updates=features, **fields).error_code


def finalized(broker: BrokerInMemory) -> tuple[int | None, int]:
    """The level of the feature, None where it is not on, and the epoch of all levels."""
    answer = broker.ask("api_versions", 4, client_software_name="tests", client_software_version="1")
    levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    assert {feature.name: feature.max_version for feature in answer.supported_features}[NAME] == 2
    return levels.get(NAME), answer.finalized_features_epoch


@pytest.mark.parametrize("version", [1, 2])
def test_level_that_was_acknowledged_survives_a_power_cut(broker: BrokerInMemory, version: int) -> None:
    """A client takes features for newer than those it knows only if their epoch is higher (KIP-584)."""
    assert finalized(broker) == (2, 0)
    assert update(broker, (NAME, 1, SAFE_DOWNGRADE), version=version) is ErrorCode.none
    assert finalized(broker) == (1, 1)
    assert update(broker, (NAME, 0, UNSAFE_DOWNGRADE), version=version) is ErrorCode.none
    broker.disk.crash()
    broker.restart()
    assert finalized(broker) == (None, 2), "a feature at level 0 is not on"
    assert update(broker, (NAME, 2, UPGRADE), version=version) is ErrorCode.none
    assert finalized(broker) == (2, 3)


def test_oldest_version_says_whether_a_downgrade_is_meant(broker: BrokerInMemory) -> None:
    for allowed, error in ((False, ErrorCode.invalid_update_version), (True, ErrorCode.none)):
        features = [{"feature": NAME, "max_version_level": 1, "allow_downgrade": allowed}]
        answer = broker.ask("update_features", 0, timeout=MINUTE, feature_updates=features)
        assert answer.error_code is error
    assert finalized(broker)[0] == 1


@pytest.mark.parametrize(
    "refused",
    [
        (NAME, 1, UPGRADE),
        (NAME, 3, UPGRADE),
        (NAME, -1, SAFE_DOWNGRADE),
        (NAME, 1, 9),
        ("metadata.version", 7, UPGRADE),
        ("", 1, UPGRADE),
    ],
)
def test_update_that_kafka_would_not_take_refuses_all(broker: BrokerInMemory, refused: tuple[str, int, int]) -> None:
    both = ((NAME, 0, SAFE_DOWNGRADE), refused) if refused[0] != NAME else (refused,)
    assert update(broker, *both) is ErrorCode.invalid_update_version
    assert finalized(broker) == (2, 0)


def test_downgrade_to_a_higher_level_is_refused(broker: BrokerInMemory) -> None:
    update(broker, (NAME, 0, SAFE_DOWNGRADE))
    assert update(broker, (NAME, 2, SAFE_DOWNGRADE)) is ErrorCode.invalid_update_version


def test_validation_changes_no_level(broker: BrokerInMemory) -> None:
    assert update(broker, (NAME, 0, SAFE_DOWNGRADE), validate_only=True) is ErrorCode.none
    assert finalized(broker) == (2, 0)


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
def test_transactions_are_committed_at_every_level_and_read_again_after_a_power_cut(
    broker: BrokerInMemory, level: int, protocol: Protocol
) -> None:
    """Also those of a producer that goes by the versions of the requests and not by the level."""
    make_topic(broker)
    update(broker, (NAME, level, SAFE_DOWNGRADE))
    producer = ProducerInMemory(broker, protocol)
    for number in range(3):
        producer.write(f"value {number}", number)
        producer.end(committed=True)
    broker.disk.crash()
    broker.restart()
    broker.settle()
    assert visible(broker, 0) == visible(broker, 1) == ["value 0", "value 1", "value 2"]
    assert committed_offset(broker) == 2


@pytest.mark.parametrize(("level", "version"), [(0, 0), (1, 1), (2, 1)])
def test_transaction_log_is_written_in_the_version_of_the_level(
    broker: BrokerInMemory, level: int, version: int
) -> None:
    """KIP-890: the flexible record of version 1 comes with `transaction.version` 1."""
    update(broker, (NAME, level, SAFE_DOWNGRADE))
    ProducerInMemory(broker, TV1)
    partition = broker.core.topics.partition(
        "__transaction_state", broker.core.transactions.coordinator.partition_for("teller")
    )
    assert partition is not None
    data, _ = partition.log.read(0, 100_000, partition.log.log_end_offset)
    values = [record.value for position, _ in batches(data) for record in decode_batch(data, position)]
    assert {int.from_bytes(value[:2], "big") for value in values if value} == {version}


@pytest.mark.parametrize(("level", "epochs"), [(1, 1), (2, 1)])
def test_producer_of_a_transaction_that_timed_out_is_fenced_at_every_level(
    broker: BrokerInMemory, level: int, epochs: int
) -> None:
    make_topic(broker)
    update(broker, (NAME, level, SAFE_DOWNGRADE))
    producer = ProducerInMemory(broker, TV1)
    producer.write("value", 1)
    broker.clock.advance(100_000)
    broker.settle()
    state = broker.ask("describe_transactions", 0, transactional_ids=["teller"]).transaction_states[0]
    assert (state.transaction_state, state.producer_epoch) == ("CompleteAbort", producer.epoch + epochs)


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(
    ("software", "error"),
    [
        ("apache-kafka-java", ErrorCode.none),
        ("librdkafka.2.15-RC1", ErrorCode.none),
        ("x", ErrorCode.none),
        ("", ErrorCode.invalid_request),
        ("-x", ErrorCode.invalid_request),
        ("x.", ErrorCode.invalid_request),
        ("a b", ErrorCode.invalid_request),
        ("x\n", ErrorCode.invalid_request),
        ("x" * 32_766 + "_", ErrorCode.invalid_request),
    ],
)
def test_client_says_its_name_and_version_in_letters_digits_dots_and_hyphens(
    broker: BrokerInMemory, software: str, error: ErrorCode, version: int
) -> None:
    """KIP-511: INVALID_REQUEST for a name or a version of another kind."""
    for name, of_version in ((software, "1.0"), ("x", software)):
        answer = broker.ask("api_versions", version, client_software_name=name, client_software_version=of_version)
        assert answer.error_code is error
        assert bool(answer.api_keys) is (error is ErrorCode.none)


def test_groups_have_the_consumer_protocol_at_level_1_of_their_feature_alone(broker: BrokerInMemory) -> None:
    """KIP-848 §Feature Flag: group.version 1 enables the consumer protocol; without it UNSUPPORTED_VERSION is answered."""
    answer = broker.ask("api_versions", 4, client_software_name="tests", client_software_version="1")
    assert {feature.name: feature.max_version for feature in answer.supported_features}[GROUP_NAME] == 1
    assert {feature.name: feature.max_version_level for feature in answer.finalized_features}[GROUP_NAME] == 1
    for kind, level, error in (
        (UPGRADE, 1, ErrorCode.none),
        (SAFE_DOWNGRADE, 0, ErrorCode.unsupported_version),
        (UPGRADE, 1, ErrorCode.none),
    ):
        assert update(broker, (GROUP_NAME, level, kind)) is ErrorCode.none
        broker.disk.crash()
        broker.restart()
        joined = broker.ask("consumer_group_heartbeat", 1, **join_fields(1, "g", "member", ["t"]))
        assert joined.error_code is error
        (described,) = broker.ask(
            "consumer_group_describe", 0, group_ids=("g",), include_authorized_operations=False
        ).groups
        assert described.error_code is error
