"""Requests that are well formed and mean nothing good: the broker answers them or closes the connection, and lives."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.broker_in_memory import BrokerInMemory, SteppedDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import GROUP, MINUTE, TV1, TV2, ProducerInMemory, make_topic
from harness.transaction_in_memory import TOPIC as LEDGER
from oncelog.broker.config.setting import TEXT_BYTES_MAX
from oncelog.coordination import Promise
from oncelog.wire import WireError
from tests.broker.storage.test_altering import APPEND, SET, TOPIC, alter
from tests.chaos.fuzzed_frames import RandomFrames

FEW_PARTITIONS = {"offsets_topic_num_partitions": "2", "transaction_state_log_num_partitions": "2"}
INTERNAL = ("__transaction_state", "__consumer_offsets")
LONG_TEXTS = ("x" * TEXT_BYTES_MAX, "é" * (TEXT_BYTES_MAX // 2), "\x01" * TEXT_BYTES_MAX)
TEXTS = (
    *(LEDGER, GROUP, "teller", "consumer", "range", "uniform", "", "1", "-1", "max.message.bytes", "cleanup.policy"),
    *INTERNAL,
    *LONG_TEXTS,
)
REQUESTS = 1500


@pytest.fixture
def broker() -> BrokerInMemory:
    broker = BrokerInMemory(SteppedDisk(), ManualClock(), **FEW_PARTITIONS)
    make_topic(broker)
    return broker


def hand_over(broker: BrokerInMemory, request: bytes) -> None:
    try:
        answer = broker.core.receive(broker.connection, memoryview(request))
    except WireError:
        return
    broker.settle()
    if isinstance(answer, Promise) and answer.is_resolved:
        assert answer.value is None or b"".join(answer.value)


@pytest.mark.parametrize("seed", range(6))
def test_no_request_about_a_coordinator_stops_the_broker(broker: BrokerInMemory, seed: int) -> None:
    producer = ProducerInMemory(broker, TV1)
    producer.write("open", 1)
    ids = [topic.topic_id for topic in broker.core.topics]
    frames = RandomFrames(seed, ids, TEXTS)
    for number in range(REQUESTS):
        hand_over(broker, frames.request())
        if number % 100 == 99:
            broker.clock.advance(20_000)
            broker.settle()
    broker.disk.kill()
    broker.restart()
    broker.settle()
    answer = broker.ask("find_coordinator", 3, key="new", key_type=1)
    assert answer.error_code is ErrorCode.none
    assert not broker.failures


def old_answers(broker: BrokerInMemory, text: str) -> list[str | None]:
    """What is said of this name in versions that have two bytes for the length of a string."""
    configs = [{"name": text, "config_operation": SET, "value": text}]
    plain_configs = [{"name": text, "value": text}]

    def resource(configs: list[dict[str, Any]], name: str = text, kind: int = TOPIC) -> dict[str, Any]:
        return {"resource_type": kind, "resource_name": name, "configs": configs}

    made = {"name": text, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    asked = {"resource_type": TOPIC, "resource_name": text, "configuration_keys": None}
    answers = [
        broker.ask("create_topics", 4, topics=[made], timeout=MINUTE, validate_only=False).topics[0],
        broker.ask("create_topics", 4, topics=[made, made], timeout=MINUTE, validate_only=False).topics[0],
        broker.ask(
            "create_topics",
            4,
            topics=[made | {"name": "fine", "configs": plain_configs}],
            timeout=MINUTE,
            validate_only=False,
        ).topics[0],
        broker.ask(
            "create_partitions",
            1,
            topics=[{"name": text, "count": 4, "assignments": None}],
            timeout=MINUTE,
            validate_only=False,
        ).results[0],
        broker.ask("describe_configs", 3, resources=[asked], include_synonyms=True, include_documentation=True).results[
            0
        ],
        broker.ask(
            "elect_leaders", 1, election_type=0, topic_partitions=[{"topic": text, "partitions": [0]}], timeout=MINUTE
        )
        .replica_election_results[0]
        .partition_result[0],
        broker.ask("find_coordinator", 2, key=text, key_type=7),
    ]
    for kind, name in ((TOPIC, text), (TOPIC, LEDGER), (4, text), (4, "1"), (4, ""), (99, text)):
        changed = [resource(configs, name, kind)]
        answers += broker.ask("incremental_alter_configs", 0, resources=changed, validate_only=False).responses
        changed = [resource(plain_configs, name, kind)]
        answers += broker.ask("alter_configs", 1, resources=changed, validate_only=False).responses
    return [answer.error_message for answer in answers]


@pytest.mark.parametrize("text", LONG_TEXTS, ids=["ascii", "two bytes each", "control characters"])
def test_error_that_repeats_a_long_name_fits_into_an_old_answer(broker: BrokerInMemory, text: str) -> None:
    """A string before the flexible versions has two bytes for its length (KIP-482)."""
    messages = old_answers(broker, text)
    assert all(messages)
    assert max(len((message or "").encode()) for message in messages) <= 1000


def test_produce_names_a_long_transactional_id_in_an_old_answer(broker: BrokerInMemory) -> None:
    producer = ProducerInMemory(broker, TV2)
    producer.transactional_id = LONG_TEXTS[0]
    producer.protocol = TV1
    assert producer.produce("a", 0) is not ErrorCode.none


def test_setting_does_not_grow_longer_than_an_old_answer_can_tell(broker: BrokerInMemory) -> None:
    name = "leader.replication.throttled.replicas"
    first, second = "0:1,0:2", f"0:{'1' * (TEXT_BYTES_MAX - 6)}"
    assert alter(broker, TOPIC, LEDGER, (name, SET, first)) is ErrorCode.none
    assert alter(broker, TOPIC, LEDGER, (name, APPEND, second)) is ErrorCode.invalid_config
    assert alter(broker, TOPIC, LEDGER, (name, SET, second)) is ErrorCode.none
    asked = {"resource_type": TOPIC, "resource_name": LEDGER, "configuration_keys": None}
    answer = broker.ask("describe_configs", 1, resources=[asked], include_synonyms=True)
    assert second in [config.value for config in answer.results[0].configs]


def test_member_with_the_longest_client_id_gets_an_id_that_an_old_answer_can_tell(broker: BrokerInMemory) -> None:
    broker.client_id = LONG_TEXTS[0]
    broker.ask("find_coordinator", 2, key=GROUP, key_type=0)
    reply = broker.send(
        "join_group",
        3,
        group_id=GROUP,
        session_timeout=timedelta(seconds=10),
        rebalance_timeout=timedelta(seconds=10),
        member_id="",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )
    broker.clock.advance(1)
    broker.settle()
    assert reply.message.error_code is ErrorCode.none
