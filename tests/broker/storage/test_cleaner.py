"""A broker compacts its topics by itself, the coordinators' own among them, and starts again on what is left of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.broker_in_memory import DIRECTORY, BrokerInMemory, SteppedDisk
from harness.cleaned_logs import records_of
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import (
    MINUTE,
    NONE,
    TOPIC,
    TV1,
    TV2,
    ProducerInMemory,
    Protocol,
    committed_offset,
    make_topic,
)
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, INTERNAL_TOPICS, TRANSACTION_STATE
from oncelog.cli.log.verification import verify_node
from oncelog.log import Origin, PartitionLog
from oncelog.log.inspection.findings import AtStart
from oncelog.log.inspection.read_only_disk import ReadOnlyDisk
from oncelog.records import Record, build_batch, check_batch, decode_batch
from oncelog.records.batch import batches

BACKOFF_MS = 100_000
"""So long that nothing is cleaned while a log is written."""
ROLL_MS = 1000
SETTINGS = {
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
    "log_roll_ms": str(ROLL_MS),
    "log_cleaner_delete_retention_ms": "0",
    "log_cleaner_backoff_ms": str(BACKOFF_MS),
}
TABLE = "table"


def new_broker(seed: int = 0, **settings: str) -> BrokerInMemory:
    directories = ("/data", "/more") if seed % 2 else ("/data",)
    return BrokerInMemory(SteppedDisk(seed), ManualClock(), directories, **(SETTINGS | settings))


def log_of(broker: BrokerInMemory, topic: str) -> PartitionLog:
    found = broker.core.topics.partition(topic, 0)
    assert found is not None
    return found.log


def commit(broker: BrokerInMemory, producer: ProducerInMemory, number: int) -> None:
    """One transaction, after which each log that is written again begins another segment."""
    producer.write(str(number), number)
    producer.end(committed=True)
    broker.settle()
    broker.clock.advance(ROLL_MS + 1)
    broker.settle()


def wait_for_the_cleaner(broker: BrokerInMemory) -> None:
    broker.clock.advance(BACKOFF_MS)
    broker.settle()


def visible(broker: BrokerInMemory, partition: int) -> list[str]:
    """What a reader of committed records finds, of all segments."""
    found = broker.core.topics.partition(TOPIC, partition)
    assert found is not None
    return [(record.value or b"").decode() for record in records_of(found.log, committed=True)]


def batch_count(log: PartitionLog) -> int:
    offset, count = log.log_start_offset, 0
    while offset < log.log_end_offset:
        part = log.read(offset, 1 << 20, log.log_end_offset)
        count += sum(1 for _ in batches(part.data))
        offset = part.next_offset
    return count


@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
def test_logs_of_the_coordinators_stay_small(protocol: Protocol) -> None:
    broker = new_broker(log_cleaner_min_cleanable_ratio="0", log_cleaner_backoff_ms="5000")
    make_topic(broker)
    producer = ProducerInMemory(broker, protocol)
    sizes = []
    for number in range(1, 121):
        commit(broker, producer, number)
        if number % 40 == 0:
            sizes.append({topic: batch_count(log_of(broker, topic)) for topic in INTERNAL_TOPICS})
    assert max(sizes[-1].values()) < 20, sizes
    assert sizes[-1] == sizes[0], "they do not grow"
    before = broker.disk.bytes_read
    broker.disk.kill()
    broker.restart()
    assert broker.disk.bytes_read - before < 200_000
    broker.settle()
    assert committed_offset(broker) == 120
    commit(broker, ProducerInMemory(broker, protocol), 121)
    assert visible(broker, 0) == [str(number) for number in range(1, 122)]


def test_topics_of_the_coordinators_have_kafkas_settings() -> None:
    broker = new_broker()
    make_topic(broker)
    commit(broker, ProducerInMemory(broker, TV2), 1)
    own = {}
    for name in INTERNAL_TOPICS:
        topic = broker.core.topics.named(name)
        assert topic is not None
        own[name] = topic.configs
    assert own[CONSUMER_OFFSETS] == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    assert own[TRANSACTION_STATE]["cleanup.policy"] == "compact"
    assert own[TRANSACTION_STATE]["compression.type"] == "uncompressed"
    assert own[TRANSACTION_STATE]["segment.bytes"] == "104857600"


def make_table(broker: BrokerInMemory, policy: str = "compact") -> None:
    configs = [{"name": "cleanup.policy", "value": policy}]
    topic = {"name": TABLE, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": configs}
    answer = broker.ask("create_topics", 5, topics=[topic], timeout=MINUTE)
    assert answer.topics[0].error_code is NONE, answer
    broker.settle()


def put(broker: BrokerInMemory, key: bytes, value: bytes) -> None:
    """One record, and a new segment with the next."""
    batch = build_batch([Record(key, value, timestamp_ms=broker.clock.now_ms())])
    check_batch(batch)
    answer = broker.ask(
        "produce",
        9,
        transactional_id=None,
        acks=-1,
        timeout=MINUTE,
        topic_data=[{"name": TABLE, "partition_data": [{"index": 0, "records": batch}]}],
    )
    assert answer.responses[0].partition_responses[0].error_code is NONE
    broker.settle()
    broker.clock.advance(ROLL_MS + 1)
    broker.settle()


def table(broker: BrokerInMemory) -> list[tuple[int, bytes | None, bytes | None]]:
    log = log_of(broker, TABLE)
    offset, found = log.log_start_offset, []
    while offset < log.log_end_offset:
        part = log.read(offset, 1 << 20, log.log_end_offset)
        for position, _ in batches(part.data):
            found += [(one.offset, one.key, one.value) for one in decode_batch(part.data, position)]
        offset = part.next_offset
    return found


def test_compacted_topic_is_cleaned_and_the_checkpoint_says_how_far() -> None:
    broker = new_broker()
    make_table(broker)
    for number in range(10):
        put(broker, b"%d" % (number % 2), b"%d" % number)
    wait_for_the_cleaner(broker)
    assert table(broker) == [(7, b"1", b"7"), (8, b"0", b"8"), (9, b"1", b"9")]
    checkpoint = broker.disk.read_file(f"{DIRECTORY}/cleaner-offset-checkpoint").decode()
    assert checkpoint == f"0\n1\n{TABLE} 0 9\n"
    broker.core.stop()
    broker.restart()
    assert log_of(broker, TABLE).compaction.cleaned_offset == 9


def test_damage_that_the_cleaner_meets_takes_the_partition_offline_and_the_broker_goes_on() -> None:
    broker = new_broker()
    make_table(broker)
    make_topic(broker)
    for number in range(10):
        put(broker, b"%d" % (number % 2), b"%d" % number)
    broker.disk.flip(f"{DIRECTORY}/{TABLE}-0/{3:020}.log", 65, 1)
    wait_for_the_cleaner(broker)
    assert broker.core.topics.is_offline(TABLE, 0)
    commit(broker, ProducerInMemory(broker, TV2), 1)
    assert visible(broker, 0) == ["1"]


def test_checkpoint_of_a_deleted_topic_is_not_that_of_the_next_of_its_name() -> None:
    broker = new_broker()
    make_table(broker)
    for number in range(6):
        put(broker, b"a", b"%d" % number)
    wait_for_the_cleaner(broker)
    answer = broker.ask("delete_topics", 5, topic_names=[TABLE], timeout=MINUTE)
    assert answer.responses[0].error_code is NONE
    broker.settle()
    make_table(broker)
    for number in range(8):
        put(broker, b"a", b"%d" % number)
    broker.core.stop()
    broker.restart()
    assert log_of(broker, TABLE).compaction.cleaned_offset is None
    wait_for_the_cleaner(broker)
    assert [offset for offset, _, _ in table(broker)] == [6, 7]


@pytest.mark.parametrize(("policy", "settings"), [("delete", {}), ("compact", {"log_cleaner_enable": "false"})])
def test_what_is_not_to_be_compacted_stays(policy: str, settings: dict[str, str]) -> None:
    broker = new_broker(**settings)
    make_table(broker, policy)
    for number in range(6):
        put(broker, b"a", b"%d" % number)
    wait_for_the_cleaner(broker)
    assert len(table(broker)) == 6


def test_log_that_is_not_dirty_enough_waits() -> None:
    broker = new_broker()
    make_table(broker)
    for number in range(10):
        put(broker, b"%d" % number, b"")
    wait_for_the_cleaner(broker)
    put(broker, b"0", b"new")
    put(broker, b"1", b"new")
    wait_for_the_cleaner(broker)
    assert len(table(broker)) == 12


def kill(disk: SteppedDisk) -> None:
    disk.kill()


def cut_power(disk: SteppedDisk) -> None:
    disk.crash()


@pytest.mark.parametrize("crash", [kill, cut_power], ids=lambda crash: crash.__name__)
@pytest.mark.parametrize("seed", range(2))
def test_stop_at_any_step_of_the_cleaner_loses_nothing(crash: Callable[[SteppedDisk], None], seed: int) -> None:
    step = 0
    while True:
        broker = new_broker(seed)
        make_topic(broker)
        make_table(broker)
        producer = ProducerInMemory(broker, TV2)
        for number in range(1, 9):
            commit(broker, producer, number)
            put(broker, b"%d" % (number % 2), b"%d" % number)
        before = table(broker)
        broker.clock.advance(BACKOFF_MS)
        is_over = not all(broker.disk.take_step() for _ in range(step))
        crash(broker.disk)
        broker.restart()
        broker.settle()
        assert not broker.failures
        found = table(broker)
        kept = {key: (offset, value) for offset, key, value in found}
        end = log_of(broker, TABLE).log_end_offset
        if crash is kill:
            assert end == len(before)
        # Without transactions a power cut may take what was not durable: the last records, and none before them.
        assert kept == {key: (offset, value) for offset, key, value in before if offset < end}
        assert set(found) <= set(before)
        assert committed_offset(broker) == 8
        values = [str(number) for number in range(1, 9)]
        assert visible(broker, 0) == visible(broker, 1) == values
        for _ in range(3):
            wait_for_the_cleaner(broker)
        commit(broker, ProducerInMemory(broker, TV2), 9)
        assert visible(broker, 0) == [*values, "9"]
        assert committed_offset(broker) == 9
        if is_over:
            break
        step += 1
    assert step > 10


def cleaned_and_written(broker: BrokerInMemory) -> list[int]:
    """A cleaned table, with segments behind that which are not durable; return where these begin."""
    make_table(broker)
    for number in range(10):
        put(broker, b"%d" % (number % 2), b"%d" % number)
    wait_for_the_cleaner(broker)
    bases = []
    log = log_of(broker, TABLE)
    for number in range(3):
        log.files.roll(broker.clock.now_ms())
        bases.append(log.log_end_offset)
        batch = build_batch([Record(b"0", b"late %d" % number, timestamp_ms=broker.clock.now_ms())])
        log.append(batch, check_batch(batch), Origin.CLIENT)
    return bases


def empty(broker: BrokerInMemory, base: int) -> None:
    broker.disk.replace_file(f"{DIRECTORY}/{TABLE}-0/{base:020}.log", b"")


def test_compacted_topic_ends_at_a_segment_that_a_crash_emptied_and_verify_says_so() -> None:
    broker = new_broker()
    first, second, _ = cleaned_and_written(broker)
    before = table(broker)
    broker.disk.kill()
    empty(broker, second)
    found = verify_node(ReadOnlyDisk(broker.disk), [DIRECTORY])
    lost = [finding for finding in found.findings if TABLE in finding.path and finding.offset == second]
    assert {finding.at_start for finding in lost} == {AtStart.CUTS}
    broker.restart()
    assert log_of(broker, TABLE).log_end_offset == second
    assert table(broker) == [one for one in before if one[0] < second]
    assert before[-3][0] == first


def test_gaps_are_gaps_where_no_checkpoint_says_where_they_end() -> None:
    """An older version has written none, nor does Kafka; what is damaged before anybody has looked at it stays unknown."""
    broker = new_broker()
    cleaned_and_written(broker)
    before = table(broker)
    broker.disk.kill()
    for name in ("oncelog-checkpoint", "recovery-point-offset-checkpoint"):
        broker.disk.remove(f"{DIRECTORY}/{name}")
    path = f"{DIRECTORY}/{TABLE}-0/partition.metadata"
    whole = broker.disk.read_file(path)
    broker.disk.replace_file(path, whole.replace(whole[-5:], b"AAAAA"))
    broker.restart()
    assert broker.core.topics.is_offline(TABLE, 0)
    broker.disk.kill()
    broker.disk.replace_file(path, whole)
    broker.restart()
    assert table(broker) == before


def test_topic_that_is_deleted_while_it_is_cleaned_is_gone() -> None:
    step = 0
    while True:
        broker = new_broker()
        make_table(broker)
        for number in range(10):
            put(broker, b"%d" % (number % 2), b"%d" % number)
        broker.clock.advance(BACKOFF_MS)
        is_over = not all(broker.disk.take_step() for _ in range(step))
        answer = broker.ask("delete_topics", 5, topic_names=[TABLE], timeout=MINUTE)
        assert answer.responses[0].error_code is NONE
        broker.settle()
        wait_for_the_cleaner(broker)
        assert not broker.failures
        assert broker.core.topics.named(TABLE) is None
        if is_over:
            break
        step += 1
    assert step > 5
