"""What the log says of a request that was refused: an operator knows which topic, partition, group or setting it was."""

from __future__ import annotations

import dataclasses
import importlib
import logging
import typing
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from harness.broker_in_memory import BrokerInMemory, SteppedDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import MINUTE, TOPIC, make_topic
from oncelog.broker import request_log
from oncelog.broker.apis import APIS
from oncelog.cluster.apis import CLUSTER_APIS
from oncelog.wire import message_class

SERVED = {**APIS, **CLUSTER_APIS}
WITHOUT_A_NAME = {"AclCreationResult", "DeleteAclsFilterResult"}
"""They are in the order of what was asked, and have words."""
NAMES = {*request_log.TOPIC_NAMES, *request_log.OTHER_NAMES, "resource_name"}


@pytest.fixture
def broker() -> BrokerInMemory:
    return BrokerInMemory(SteppedDisk(), ManualClock())


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[Any]:
    caplog.set_level(logging.INFO, "oncelog.requests")

    def since() -> list[str]:
        lines = [one.getMessage() for one in caplog.records if one.name == "oncelog.requests"]
        caplog.clear()
        return [line.partition(" was refused: ")[2] for line in lines]

    return since


def items(kind: Any, above: tuple[str, ...] = (), *, is_answer: bool = True) -> Iterator[tuple[str, set[str]]]:
    """Each kind of item in an answer that has an error, with the names of the fields that say what it is about."""
    found = {field.name for field in dataclasses.fields(kind)}
    names = (*above, *(() if is_answer else sorted(found & NAMES)))
    if not is_answer and any(name.endswith("error_code") for name in found):
        yield kind.__name__, set(names)
    hints = typing.get_type_hints(kind, vars(importlib.import_module(kind.__module__)))
    for inner in {arm for hint in hints.values() for arm in _arms(hint)}:
        yield from items(inner, names, is_answer=False)


def _arms(hint: Any) -> Iterator[Any]:
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        yield hint
    for arm in typing.get_args(hint):
        yield from _arms(arm)


@pytest.mark.parametrize("key", sorted(SERVED), ids=lambda key: SERVED[key].name)
def test_every_item_that_can_be_refused_says_what_it_is_about(key: int) -> None:
    api = SERVED[key]
    for version in range(api.minimum, api.maximum + 1):
        for name, names in items(message_class(key, version, "response")):
            assert names or name in WITHOUT_A_NAME, f"{name} of {api.name} v{version}"


def ask_for(broker: BrokerInMemory, *names: str) -> None:
    broker.ask(
        "metadata",
        8,
        topics=[{"name": name} for name in names],
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def test_metadata_names_the_topic(broker: BrokerInMemory, said: Any) -> None:
    ask_for(broker, "a/b")
    assert said() == ["INVALID_TOPIC_EXCEPTION for a/b"]


def test_many_are_counted_and_the_first_are_named(broker: BrokerInMemory, said: Any) -> None:
    ask_for(broker, *(f"{number}/" for number in range(7)))
    assert said() == ["INVALID_TOPIC_EXCEPTION x 7 for 0/, 1/, 2/ and 4 more"]


def test_names_make_no_lines_of_their_own_and_no_long_ones(broker: BrokerInMemory, said: Any) -> None:
    ask_for(broker, "a\nERROR all is lost", "/" * 30_000)
    (line,) = said()
    assert "\n" not in line
    assert len(line) < 600


def test_create_topics_says_which_and_why(broker: BrokerInMemory, said: Any) -> None:
    asked = [
        {
            "name": "t",
            "num_partitions": 1,
            "replication_factor": 1,
            "assignments": [],
            "configs": [{"name": "retention.ms", "value": "soon"}],
        }
    ]
    broker.ask("create_topics", 7, topics=asked, timeout=MINUTE, validate_only=False)
    assert said() == [
        "INVALID_CONFIG for t (Invalid value soon for configuration retention.ms: Not a number of type LONG)"
    ]


def test_produce_names_the_partition_and_the_size(broker: BrokerInMemory, said: Any) -> None:
    make_topic(broker)
    data = [{"name": TOPIC, "partition_data": [{"index": 1, "records": bytes(2_000_000)}]}]
    broker.ask("produce", 9, transactional_id=None, acks=1, timeout=MINUTE, topic_data=data)
    assert said() == [f"MESSAGE_TOO_LARGE for {TOPIC}-1 ({TOPIC}-1: a batch of 2000000 bytes is larger than 1048588)"]


def test_fetch_names_the_topic_whose_id_it_has(broker: BrokerInMemory, said: Any) -> None:
    make_topic(broker)
    topic = broker.core.topics.named(TOPIC)
    assert topic is not None

    def fetch(topic_id: UUID, offset: int) -> None:
        partition = {
            "partition": 0,
            "current_leader_epoch": -1,
            "fetch_offset": offset,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": 1000,
        }
        broker.ask(
            "fetch",
            13,
            replica_id=-1,
            max_wait=MINUTE * 0,
            min_bytes=0,
            max_bytes=1000,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[{"topic_id": topic_id, "partitions": [partition]}],
            forgotten_topics_data=[],
            rack_id="",
        )

    fetch(topic.topic_id, 7)
    assert said() == [f"OFFSET_OUT_OF_RANGE for {TOPIC}-0"]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (16, "client metrics x (client metrics have no settings here: the broker collects none of its clients)"),
        (
            8,
            "broker logger x (the loggers of a broker have no settings here: what it logs is said by `oncelog serve "
            "--log-level`)",
        ),
        (99, "resource of type 99 x (Unknown resource type 99)"),
    ],
)
def test_resources_without_settings_are_named_in_words(
    broker: BrokerInMemory, said: Any, number: int, words: str
) -> None:
    resource = {"resource_type": number, "resource_name": "x"}
    change = {"name": "interval.ms", "config_operation": 0, "value": "5"}
    broker.ask("incremental_alter_configs", 1, resources=[{**resource, "configs": [change]}], validate_only=False)
    broker.ask(
        "describe_configs",
        4,
        resources=[{**resource, "configuration_keys": None}],
        include_synonyms=False,
        include_documentation=False,
    )
    assert said() == [f"INVALID_REQUEST for {words}"] * 2


def test_what_every_client_is_told_when_it_begins_is_no_refusal(broker: BrokerInMemory, said: Any) -> None:
    make_topic(broker)
    asked = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    broker.ask("create_topics", 7, topics=[asked], timeout=MINUTE, validate_only=False)
    broker.ask("find_coordinator", 3, key="g", key_type=0)
    broker.ask(
        "join_group",
        5,
        group_id="g",
        session_timeout=MINUTE,
        rebalance_timeout=MINUTE,
        member_id="",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )
    assert said() == []


@pytest.mark.parametrize("again", [False, True])
def test_who_had_a_transactional_id_is_only_fenced_where_somebody_had_it(
    broker: BrokerInMemory, caplog: pytest.LogCaptureFixture, again: bool
) -> None:
    caplog.set_level(logging.INFO, "oncelog.transactions")
    broker.ask("find_coordinator", 3, key="teller", key_type=1)

    def init(**own: int) -> Any:
        found = {"producer_id": -1, "producer_epoch": -1} | own
        return broker.ask("init_producer_id", 4, transactional_id="teller", transaction_timeout=MINUTE, **found)

    first = init()
    assert caplog.messages == [f"teller: producer id {first.producer_id} has epoch 0"]
    caplog.clear()
    if again:
        init(producer_id=first.producer_id, producer_epoch=first.producer_epoch)
        assert caplog.messages == [f"teller: producer id {first.producer_id} has epoch 1"]
    else:
        init()
        told = f"teller: producer id {first.producer_id} has epoch 1, the producer before is fenced"
        assert caplog.messages == [told]
