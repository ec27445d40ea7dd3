"""What others have written to the coordinators' topics does not keep the broker from starting, nor from knowing the rest."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.broker_in_memory import BrokerInMemory, SteppedDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import MINUTE, TV2, ProducerInMemory, committed_offset, make_topic, visible
from oncelog import groups, transactions
from oncelog.broker.coordinators.loading import journal_state
from oncelog.broker.storage.journal import (
    BrokerStarted,
    LogDirectoriesNamed,
    LogDirectoryFailed,
    MetadataRecord,
    ReplicasHosted,
    TopicCreated,
)
from oncelog.log import Appended, Standing
from oncelog.records import ControlType, Record, batches, build_batch, decode_batch
from oncelog.wire import ErrorCode, WireError

TOPIC_ID = "00000000-0000-0000-0000-000000000001"
HOME, OTHER, THIRD = "home", "other", "third"
NAMED = LogDirectoriesNamed(paths={HOME: "/home", OTHER: "/other", THIRD: "/third"})
STARTED = BrokerStarted(leader_epoch=0)
TOPICS = ("__transaction_state", "__consumer_offsets")
FEW_PARTITIONS = {"offsets_topic_num_partitions": "1", "transaction_state_log_num_partitions": "1"}
WRITTEN = ["first", "second"]
DECODERS = {"__transaction_state": transactions.decode, "__consumer_offsets": groups.decode}


def broker_with_commits() -> BrokerInMemory:
    broker = BrokerInMemory(SteppedDisk(), ManualClock(), **FEW_PARTITIONS)
    make_topic(broker)
    producer = ProducerInMemory(broker, TV2)
    for number, value in enumerate(WRITTEN):
        producer.write(value, number)
        producer.end(committed=True)
    broker.settle()
    return broker


def records_of(broker: BrokerInMemory, topic: str) -> Iterator[Record]:
    log = broker.core.topics.named(topic).partitions[0].log
    data, _ = log.read(0, 2**20, log.log_end_offset)
    for position, header in batches(data):
        if not header.is_control:
            yield from decode_batch(bytes(data), position)


GENUINE = {topic: list(records_of(broker_with_commits(), topic)) for topic in TOPICS}


def write_as_administrator(broker: BrokerInMemory, topic: str, *written: Record) -> ErrorCode:
    broker.client_id = "__admin_client"
    answer = broker.ask(
        "produce",
        9,
        transactional_id=None,
        acks=-1,
        timeout=MINUTE,
        topic_data=[{"name": topic, "partition_data": [{"index": 0, "records": build_batch(list(written))}]}],
    )
    broker.client_id = "tests"
    return answer.responses[0].partition_responses[0].error_code


def knows_what_was_committed(broker: BrokerInMemory) -> bool:
    return visible(broker, 0) == visible(broker, 1) == WRITTEN and committed_offset(broker) == 1


def start_again(broker: BrokerInMemory) -> None:
    broker.settle()
    broker.disk.kill()
    broker.restart()


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("committed", [True, False])
def test_marker_in_a_topic_of_a_coordinator_is_no_record_of_it(topic: str, committed: bool) -> None:
    broker = broker_with_commits()
    partition = broker.core.topics.partition(topic, 0)
    control = ControlType.COMMIT if committed else ControlType.ABORT
    assert isinstance(partition.append_marker(control, 4711, 0, 0, 1, broker.clock.now_ms()), Appended)
    start_again(broker)
    assert knows_what_was_committed(broker)
    producer = ProducerInMemory(broker, TV2)
    producer.write("third", 2)
    producer.end(committed=True)
    assert visible(broker, 0) == [*WRITTEN, "third"]


def mutated(topic: str) -> st.SearchStrategy[Record]:
    """Records that a coordinator wrote, with bytes cut off, put in or replaced; for keys that nobody uses."""

    def bytes_like(found: bytes | None) -> st.SearchStrategy[bytes | None]:
        if found is None:
            return st.none()
        cut = st.builds(lambda end: found[:end], st.integers(0, len(found)))
        changed = st.builds(
            lambda at, junk: found[:at] + junk + found[at + len(junk) :],
            st.integers(0, len(found)),
            st.binary(max_size=8),
        )
        return st.one_of(st.just(found), st.none(), cut, changed, st.binary(max_size=40))

    return st.sampled_from(GENUINE[topic]).flatmap(
        lambda genuine: st.builds(
            lambda key, value: Record(key, value, timestamp_ms=1), bytes_like(genuine.key), bytes_like(genuine.value)
        )
    )


def tombstone(topic: str, key: bytes | None) -> object:
    """What a record of this key without a value is about: another version, or bytes at the end, change nothing in that."""
    try:
        return DECODERS[topic](Record(key, None, timestamp_ms=1))
    except WireError:
        return None


def means_nothing_that_is_committed(topic: str, record: Record) -> bool:
    found = tombstone(topic, record.key)
    return found is None or found not in [tombstone(topic, genuine.key) for genuine in GENUINE[topic]]


@pytest.mark.parametrize("topic", TOPICS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(data=st.data())
def test_whatever_is_written_to_a_topic_of_a_coordinator_the_broker_starts(topic: str, data: st.DataObject) -> None:
    broker = broker_with_commits()
    record = data.draw(mutated(topic))
    write_as_administrator(broker, topic, record)
    start_again(broker)
    if means_nothing_that_is_committed(topic, record):
        assert knows_what_was_committed(broker)


@pytest.mark.parametrize(
    "made",
    [
        [TopicCreated(name="t", topic_id=TOPIC_ID, partition_count=1, configs={})],
        [ReplicasHosted(topic="t", topic_id=TOPIC_ID, partitions=[0])],
    ],
)
def test_what_an_offline_directory_has_of_what_is_made_meanwhile_is_doubtful(made: list[MetadataRecord]) -> None:
    failed = [NAMED, STARTED, LogDirectoryFailed(directory_id=OTHER), *made]
    assert journal_state(failed).standing(("t", 0), OTHER) is Standing.DOUBTFUL
    assert journal_state(failed).standing(("t", 0), HOME) is Standing.CURRENT
    assert journal_state([*failed, STARTED]).standing(("t", 0), OTHER) is Standing.CURRENT
    assert [journal_state(failed).has(("t", index), UUID(TOPIC_ID)) for index in (0, 1)] == [True, False]
    assert not journal_state(failed).has(("t", 0), UUID(int=2))


def test_replicas_beside_one_that_is_hosted_meanwhile_stay() -> None:
    hosted = ReplicasHosted(topic="t", topic_id=TOPIC_ID, partitions=[0])
    state = journal_state([NAMED, STARTED, LogDirectoryFailed(directory_id=OTHER), hosted])
    assert state.standing(("t", 1), OTHER) is Standing.CURRENT


def test_what_was_made_without_a_directory_is_known_until_the_directory_is_back() -> None:
    hosted = ReplicasHosted(topic="t", topic_id=TOPIC_ID, partitions=[4])
    lost = [LogDirectoryFailed(directory_id=OTHER), LogDirectoryFailed(directory_id=THIRD)]
    left_out = [LogDirectoriesNamed(paths={HOME: "/home", THIRD: "/third"}), STARTED]
    more = ReplicasHosted(topic="t", topic_id=TOPIC_ID, partitions=[5])
    without = [NAMED, STARTED, *lost, hosted, *left_out, more, STARTED]
    every = [(("t", index), directory) for index in (4, 5) for directory in (HOME, OTHER, THIRD)]
    doubtful = [one for one in every if journal_state(without).standing(*one) is Standing.DOUBTFUL]
    assert doubtful == [(("t", 4), OTHER), (("t", 5), OTHER)]
    back = journal_state([*without, NAMED, STARTED])
    assert {back.standing(*one) for one in every} == {Standing.CURRENT}
