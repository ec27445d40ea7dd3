"""What a client may do to the coordinators' own topics, and what the coordinators make of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode

from harness.broker_in_memory import BrokerInMemory, SteppedDisk
from harness.consumer_group_requests import join_fields as beat_join_fields
from harness.group_requests import SESSION_MS, SYNC, commit_fields, join_fields, sync_fields
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import (
    GROUP,
    MINUTE,
    TV1,
    TV2,
    ProducerInMemory,
    committed_offset,
    make_topic,
    visible,
)
from harness.transaction_in_memory import TOPIC as LEDGER
from oncelog.broker.config.setting import Setting
from oncelog.broker.config.settings import BROKER_SETTINGS, TOPIC_SETTINGS
from oncelog.records import Record, batches, build_batch, decode_batch
from tests.broker.storage.test_altering import BROKER, DELETE, SET, TOPIC, alter

NONE = ErrorCode.none
UNKNOWN = ErrorCode.unknown_server_error
STATE, OFFSETS = INTERNAL = ("__transaction_state", "__consumer_offsets")
COUNTS = {STATE: "transaction_state_log_num_partitions", OFFSETS: "offsets_topic_num_partitions"}
TOO_SMALL = ("max.message.bytes", SET, "1")


@pytest.fixture
def broker() -> BrokerInMemory:
    broker = BrokerInMemory(SteppedDisk(), ManualClock(), **dict.fromkeys(COUNTS.values(), "3"))
    make_topic(broker)
    return broker


def start(broker: BrokerInMemory) -> None:
    """Have the coordinators' topics."""
    for key_type in (0, 1):
        broker.ask("find_coordinator", 3, key="x", key_type=key_type)
    broker.settle()


def init(broker: BrokerInMemory, transactional_id: str) -> ErrorCode:
    answer = broker.ask("init_producer_id", 4, transactional_id=transactional_id, transaction_timeout=MINUTE)
    return answer.error_code


def commit(broker: BrokerInMemory, group: str, offset: int) -> ErrorCode:
    answer = broker.ask("offset_commit", 8, **commit_fields(group, LEDGER, {0: offset}))
    return answer.topics[0].partitions[0].error_code


def join(broker: BrokerInMemory, group: str) -> str:
    reply = broker.send("join_group", 2, **join_fields(2, group))
    broker.clock.advance(1)
    broker.settle()
    assert reply.message.error_code is NONE
    return str(reply.message.member_id)


def extremes(setting: Setting) -> Iterator[str]:
    """The ends of what is allowed, and one step beyond: those are refused."""
    if setting.kind == "boolean":
        yield from ("true", "false")
    for bound, beyond in ((setting.minimum, -1), (setting.maximum, 1)):
        if bound is not None:
            yield from (str(int(bound)), str(int(bound) + beyond))
    yield from (*setting.choices, "", "0", "1")


class TestSettings:
    """Kafka leaves the settings of internal topics to whoever may alter topics."""

    @pytest.mark.parametrize("name", TOPIC_SETTINGS)
    def test_no_setting_of_a_coordinators_topic_stops_the_broker(self, broker: BrokerInMemory, name: str) -> None:
        open_before = ProducerInMemory(broker, TV1, "open before")
        open_before.write("open before", 1)
        for value in dict.fromkeys(extremes(TOPIC_SETTINGS[name])):
            for topic in INTERNAL:
                alter(broker, TOPIC, topic, (name, SET, value))
            broker.clock.advance(1)
            init(broker, "a client")
            commit(broker, "a group", 1)
            broker.settle()
        open_before.end(committed=True)
        broker.settle()
        broker.disk.kill()
        broker.restart()
        for topic in INTERNAL:
            alter(broker, TOPIC, topic, (name, DELETE, None))
        assert visible(broker, 0) == visible(broker, 1) == ["open before"]
        after = ProducerInMemory(broker, TV2)
        after.write("after", 2)
        after.end(committed=True)
        broker.settle()
        assert visible(broker, 0) == ["open before", "after"]
        assert committed_offset(broker) == 2

    @pytest.mark.parametrize("name", [name for name, setting in BROKER_SETTINGS.items() if setting.is_dynamic])
    def test_no_setting_of_the_broker_stops_it(self, broker: BrokerInMemory, name: str) -> None:
        open_before = ProducerInMemory(broker, TV1)
        open_before.write("open before", 1)
        for value in dict.fromkeys(extremes(BROKER_SETTINGS[name])):
            alter(broker, BROKER, "", (name, SET, value))
            broker.clock.advance(1)
            init(broker, "a client")
            commit(broker, "a group", 1)
            broker.settle()
        open_before.end(committed=True)
        broker.settle()
        alter(broker, BROKER, "", (name, DELETE, None))
        assert visible(broker, 0) == visible(broker, 1) == ["open before"]

    def test_client_is_told_that_its_record_does_not_fit(self, broker: BrokerInMemory) -> None:
        """TransactionStateManager, CoordinatorOperationExceptionHelper: MESSAGE_TOO_LARGE is UNKNOWN_SERVER_ERROR there."""
        start(broker)
        known = ProducerInMemory(broker, TV1)
        member = join(broker, "classic")
        for topic in INTERNAL:
            assert alter(broker, TOPIC, topic, TOO_SMALL) is NONE
        assert init(broker, "too large") is UNKNOWN
        added = broker.ask(
            "add_partitions_to_txn",
            3,
            v3_and_below_transactional_id=known.transactional_id,
            v3_and_below_producer_id=known.producer_id,
            v3_and_below_producer_epoch=known.epoch,
            v3_and_below_topics=[{"name": LEDGER, "partitions": [0]}],
        ).results_by_topic_v3_and_below[0]
        assert added.results_by_partition[0].partition_error_code is UNKNOWN
        assert commit(broker, "group", 1) is UNKNOWN
        joined = broker.ask("consumer_group_heartbeat", 1, **beat_join_fields(1, "modern", "member", [LEDGER]))
        assert joined.error_code is UNKNOWN
        assert broker.ask("join_group", 2, **join_fields(2, "another")).error_code is UNKNOWN
        synced = broker.ask("sync_group", SYNC, **sync_fields(SYNC, "classic", member, 1, {member: b""}))
        assert synced.error_code is UNKNOWN

    def test_decision_is_written_however_small_its_topic_takes_records(self, broker: BrokerInMemory) -> None:
        """What was accepted must end: by its producer, by time, or by the next producer of the id."""
        producers = [ProducerInMemory(broker, TV1, name) for name in ("ends", "runs out of time", "is replaced")]
        for producer in producers:
            producer.write(producer.transactional_id, 1)
        assert alter(broker, TOPIC, STATE, TOO_SMALL) is NONE
        producers[0].end(committed=True)
        assert init(broker, "is replaced") is ErrorCode.concurrent_transactions
        broker.settle()
        broker.clock.advance(MINUTE / timedelta(milliseconds=1) + 20_000)
        broker.settle()
        assert visible(broker, 0) == ["ends"]
        assert not broker.core.topics.partition(LEDGER, 0).log.producers.open_transactions()

    def test_member_that_is_not_heard_of_leaves_however_small_records_are(self, broker: BrokerInMemory) -> None:
        start(broker)
        member = join(broker, "classic")
        broker.ask("sync_group", SYNC, **sync_fields(SYNC, "classic", member, 1, {member: b""}))
        broker.ask("consumer_group_heartbeat", 1, **beat_join_fields(1, "modern", "member", [LEDGER]))
        assert alter(broker, TOPIC, OFFSETS, TOO_SMALL) is NONE
        broker.clock.advance(SESSION_MS + 100_000)
        broker.settle()
        states = {group.group_id: group.group_state for group in broker.ask("list_groups", 4, states_filter=[]).groups}
        assert states == {"classic": "Empty", "modern": "Empty"}

    def test_offsets_of_a_deleted_topic_go_however_small_records_are(self, broker: BrokerInMemory) -> None:
        start(broker)
        assert commit(broker, GROUP, 7) is NONE
        assert alter(broker, TOPIC, OFFSETS, TOO_SMALL) is NONE
        broker.ask("delete_topics", 5, topic_names=[LEDGER], timeout=MINUTE)
        broker.settle()
        make_topic(broker)
        assert committed_offset(broker) == -1


class TestPartitionCount:
    """Kafka asks the metadata how many there are; a setting says only how many a topic gets that is yet to be made."""

    @pytest.mark.parametrize("count", ["1", "2", "7", "50"])
    def test_number_of_partitions_stays_what_it_was_when_the_topic_was_made(
        self, broker: BrokerInMemory, count: str
    ) -> None:
        names = [f"id {number}" for number in range(20)]
        for name in names:
            producer = ProducerInMemory(broker, TV2, name)
            producer.write(name, 1)
            producer.end(committed=True)
            assert commit(broker, name, 5) is NONE
        broker.settle()
        broker.disk.kill()
        again = BrokerInMemory(broker.disk, broker.clock, **dict.fromkeys(COUNTS.values(), count))
        assert [len(again.core.topics.named(topic).partitions) for topic in INTERNAL] == [3, 3]
        for name in names:
            producer = ProducerInMemory(again, TV2, name)
            assert producer.epoch == 2, "the id is still known: EndTxn v5 and InitProducerId advance its epoch"
            producer.write(f"{name} again", 2)
            producer.end(committed=True)
            assert commit(again, name, 6) is NONE
        again.settle()
        assert visible(again, 0) == [*names, *(f"{name} again" for name in names)]

    @pytest.mark.parametrize("count", [1, 5])
    def test_topic_that_a_client_makes_first_has_as_many_as_it_says(self, broker: BrokerInMemory, count: int) -> None:
        made = [
            {"name": topic, "num_partitions": count, "replication_factor": 1, "assignments": [], "configs": []}
            for topic in INTERNAL
        ]
        answer = broker.ask("create_topics", 5, topics=made, timeout=MINUTE)
        assert {topic.error_code for topic in answer.topics} == {NONE}
        names = [f"id {number}" for number in range(10)]
        for name in names:
            producer = ProducerInMemory(broker, TV1, name)
            producer.write(name, 1)
            producer.end(committed=True)
            assert commit(broker, name, 5) is NONE
        broker.settle()
        broker.disk.kill()
        broker.restart()
        assert visible(broker, 0) == names

    @pytest.mark.parametrize("topic", INTERNAL)
    def test_number_of_partitions_does_not_grow(self, broker: BrokerInMemory, topic: str) -> None:
        """Kafka lets them grow, and looks for what was there before in other partitions from then on."""
        start(broker)
        asked = {"name": topic, "count": 4, "assignments": None}
        answer = broker.ask("create_partitions", 3, topics=[asked], timeout=MINUTE, validate_only=False)
        assert answer.results[0].error_code is ErrorCode.invalid_topic_exception

    @pytest.mark.parametrize("topic", INTERNAL)
    def test_record_in_a_partition_it_does_not_belong_to_is_left_out(self, broker: BrokerInMemory, topic: str) -> None:
        """An administrator may write there: what is read at start is what the coordinator would have written."""
        producer = ProducerInMemory(broker, TV2)
        producer.write("first", 1)
        producer.end(committed=True)
        assert commit(broker, GROUP, 1) is NONE
        broker.settle()
        genuine = [
            record
            for partition in broker.core.topics.named(topic).partitions
            for record in records_of(broker, topic, partition.index)
        ]
        broker.client_id = "__admin_client"
        for index in range(3):
            batch = build_batch(genuine)
            data = [{"name": topic, "partition_data": [{"index": index, "records": batch}]}]
            answer = broker.ask("produce", 9, transactional_id=None, acks=-1, timeout=MINUTE, topic_data=data)
            assert answer.responses[0].partition_responses[0].error_code is NONE
        broker.client_id = "tests"
        broker.settle()
        broker.disk.kill()
        broker.restart()
        assert visible(broker, 0) == ["first"]
        assert committed_offset(broker) == 1


def records_of(broker: BrokerInMemory, topic: str, index: int) -> list[Record]:
    log = broker.core.topics.partition(topic, index).log
    data, _ = log.read(0, 2**20, log.log_end_offset)
    found = [
        record for position, header in batches(data) if not header.is_control for record in decode_batch(data, position)
    ]
    return [Record(record.key, record.value, timestamp_ms=1) for record in found]
