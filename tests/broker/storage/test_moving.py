"""A partition goes to another log directory: what is in it, what is open in it, and whoever waits for it notices nothing."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from harness.broker_in_memory import BrokerInMemory, Reply, SteppedDisk
from harness.cleaned_logs import records_of
from harness.manual_clock import ManualClock
from harness.memory_disk import PowerCut
from harness.transaction_in_memory import (
    MINUTE,
    NONE,
    TOPIC,
    TV2,
    ProducerInMemory,
    make_topic,
)
from oncelog.broker.storage.moving import PAUSE_MS
from oncelog.broker.storage.partition import Partition
from oncelog.environment import DiskError
from oncelog.log import DamagedLogError, PartitionLog
from oncelog.records import ControlType
from oncelog.simulation.memory_disk import MemoryFile
from oncelog.wire import ErrorCode

A, B, C = "/a", "/b", "/c"
LARGE = "x" * 70_000
"""More than the write-ahead log takes: the partition's own file is synced."""
EVERY_TRANSACTION_IS_TIMED_OUT_MS = 120_000
ROUNDS = 6
"""So many tests share the stops, each with a log of its own."""
SETTINGS = {
    "log_roll_ms": "4",
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
    "log_segment_delete_delay_ms": "0",
}


class RefusingDisk(SteppedDisk):
    """One of its directories may take no new files."""

    refusing: str | None = None

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        if self.refusing is not None and create and path.startswith(self.refusing):
            raise DiskError(f"cannot open {path}: Input/output error")
        return super().open(path, create=create)


def new_broker(seed: int = 0, **settings: str) -> BrokerInMemory:
    broker = BrokerInMemory(RefusingDisk(seed), ManualClock(), (A, B), **(SETTINGS | settings))
    make_topic(broker)
    return broker


def disk_of(broker: BrokerInMemory) -> RefusingDisk:
    assert isinstance(broker.disk, RefusingDisk)
    return broker.disk


def place_of(broker: BrokerInMemory, name: str = f"{TOPIC}-0") -> list[str]:
    """The log directories that have the partition."""
    return [path for path in broker.directories if name in broker.disk.list_directory(path)]


def leftovers(broker: BrokerInMemory) -> list[str]:
    """Directories that are on their way to somewhere."""
    names = [name for path in broker.directories for name in broker.disk.list_directory(path)]
    return [name for name in names if name.endswith(("-future", "-delete"))]


def other(path: str) -> str:
    return B if path == A else A


def send_move(broker: BrokerInMemory, path: str, topic: str = TOPIC, index: int = 0, version: int = 2) -> Reply:
    dirs = [{"path": path, "topics": [{"name": topic, "partitions": [index]}]}]
    return broker.send("alter_replica_log_dirs", version, dirs=dirs)


def error_of(reply: Reply) -> ErrorCode:
    (topic,) = reply.message.results
    return topic.partitions[0].error_code


def move(broker: BrokerInMemory, path: str, topic: str = TOPIC, index: int = 0) -> ErrorCode:
    reply = send_move(broker, path, topic, index)
    while not reply.came:
        assert broker.disk.take_step()
    return error_of(reply)


def partition_of(broker: BrokerInMemory, index: int = 0, topic: str = TOPIC) -> Partition:
    found = broker.core.topics.partition(topic, index)
    assert found is not None
    return found


def log_of(broker: BrokerInMemory, index: int = 0, topic: str = TOPIC) -> PartitionLog:
    return partition_of(broker, index, topic).log


def contents(log: PartitionLog) -> bytes:
    data, offset = b"", log.log_start_offset
    while offset < log.log_end_offset:
        part = log.read(offset, 1 << 20, log.log_end_offset)
        data += bytes(part.data)
        offset = part.next_offset
    return data


def state(broker: BrokerInMemory) -> list[tuple[Any, ...]]:
    """All that clients can learn of both partitions."""
    return [
        (
            contents(log),
            log.log_start_offset,
            log.log_end_offset,
            log.high_watermark,
            log.last_stable_offset,
            log.aborted_transactions(log.log_start_offset, log.log_end_offset),
            sorted(log.producers.active()),
            log.producers.open_transactions(),
            [log.epoch_end_offset(epoch) for epoch in range(log.leader_epoch + 1)],
            log.max_timestamp(),
        )
        for log in (log_of(broker, 0), log_of(broker, 1))
    ]


def unchanging(broker: BrokerInMemory) -> list[tuple[Any, ...]]:
    """What a restart leaves as it was: it begins another leader epoch, and a killed one ends transactions."""
    return [part[:8] for part in state(broker)]


def arrive(broker: BrokerInMemory) -> None:
    """Let moves end that wait until they are less disturbed."""
    for _ in range(3):
        broker.settle()
        broker.clock.advance(PAUSE_MS)
    broker.settle()


class Writers:
    """Two producers with transactions of records small and large, which end either way."""

    def __init__(self, broker: BrokerInMemory) -> None:
        self.broker = broker
        self.producers = [ProducerInMemory(broker, TV2, f"writer-{number}", f"group-{number}") for number in (0, 1)]
        self.open: list[str | None] = [None, None]
        self.committed: list[str] = []
        self.in_doubt: str | None = None
        self.count = 0

    def act(self, draw: random.Random) -> None:
        number = draw.randrange(2)
        producer, value = self.producers[number], self.open[number]
        if value is None or draw.random() < 0.3:
            if value is None:
                self.count += 1
                value = self.open[number] = f"{self.count}:"
            self.broker.clock.advance(1)
            producer.write(value + (LARGE if draw.random() < 0.3 else ""), self.count)
            return
        is_commit = draw.random() < 0.6
        self.in_doubt = value if is_commit else None
        producer.end(committed=is_commit)
        self.open[number] = self.in_doubt = None
        if is_commit:
            self.committed.append(value)


def visible(broker: BrokerInMemory, index: int) -> list[str]:
    """What a reader of committed records finds, of all segments."""
    return [(record.value or b"").decode() for record in records_of(log_of(broker, index), committed=True)]


def numbers_in(values: list[str]) -> set[str]:
    return {value.partition(":")[0] + ":" for value in values}


def filled(seed: int, **settings: str) -> tuple[BrokerInMemory, Writers, random.Random]:
    broker = new_broker(seed, **settings)
    writers, draw = Writers(broker), random.Random(seed)
    for _ in range(14):
        writers.act(draw)
    return broker, writers, draw


@pytest.mark.parametrize("seed", range(12))
def test_partition_that_was_moved_under_load_is_what_it_would_be_without(seed: int) -> None:
    """Same records at the same offsets, aborted transactions, last stable offset, producers, also after a restart."""

    def states(*, moves: bool) -> Iterator[Any]:
        broker, writers, draw = filled(seed)
        target = other(place_of(broker)[0])
        for round_number in range(3):
            if moves:
                assert move(broker, target if round_number % 2 == 0 else other(target)) is NONE
            for _ in range(8):
                writers.act(draw)
                for _ in range(draw.randrange(3)):
                    broker.disk.take_step()
            arrive(broker)
            yield state(broker)
            if moves:
                assert place_of(broker) == [target if round_number % 2 == 0 else other(target)]
                assert not leftovers(broker)
        broker.core.stop()
        broker.restart()
        assert broker.core.start_report.was_clean
        yield state(broker)

    assert list(states(moves=True)) == list(states(moves=False))


@pytest.mark.parametrize("how", ["kill", "power"])
@pytest.mark.parametrize("first", [pytest.param(first, marks=pytest.mark.drawn(3)) for first in range(ROUNDS)])
def test_stop_at_any_change_leaves_one_directory_that_has_everything(how: str, first: int) -> None:
    stops, seed = 0, first
    for stop in range(first, 1000, ROUNDS):
        broker, writers, draw = filled(seed)
        target = other(place_of(broker)[0])
        broker.settle()
        disk_of(broker).changes_left = stop
        was_asked = False
        try:
            was_asked = move(broker, target) is NONE
            for _ in range(3):
                writers.act(draw)
            broker.settle()
        except PowerCut:
            stops += 1
        else:
            break
        disk_of(broker).changes_left = None
        broker.disk.kill() if how == "kill" else broker.disk.crash()
        broker.disk.steps.clear()
        broker.restart()
        broker.settle()
        place = place_of(broker)
        assert len(place) == 1, stop
        assert not leftovers(broker), stop
        if was_asked and how == "kill":
            assert place == [target], stop
        broker.clock.advance(EVERY_TRANSACTION_IS_TIMED_OUT_MS)
        broker.settle()
        for index in (0, 1):
            seen = numbers_in(visible(broker, index))
            allowed = {writers.in_doubt} if writers.in_doubt else set()
            assert set(writers.committed) <= seen <= set(writers.committed) | allowed, stop
        assert numbers_in(visible(broker, 0)) == numbers_in(visible(broker, 1)), stop
        producer = ProducerInMemory(broker, TV2, "afterwards", "group-afterwards")
        producer.write("after:", 1)
        producer.end(committed=True)
        unchanging_before = unchanging(broker)
        broker.core.stop()
        broker.restart()
        assert unchanging(broker) == unchanging_before, stop
        assert records_of(log_of(broker), committed=False)[-1].value == b"after:"
    assert stops > 8


def killed_at(stop: int) -> tuple[BrokerInMemory, Writers, bool]:
    """A broker that was killed at this change of a move; False if the move was over before."""
    broker, writers, _ = filled(1)
    target = other(place_of(broker)[0])
    broker.settle()
    disk_of(broker).changes_left = stop
    is_killed = False
    try:
        move(broker, target)
        broker.settle()
    except PowerCut:
        is_killed = True
    disk_of(broker).changes_left = None
    broker.disk.kill()
    return broker, writers, is_killed


@pytest.fixture(scope="module")
def stops_in_two_directories() -> list[int]:
    """At which changes both directories have the partition."""
    found, stop, is_killed = [], 0, True
    while is_killed:
        broker, _, is_killed = killed_at(stop)
        if len(place_of(broker)) == 2:
            found.append(stop)
        stop += 1
    return found


@pytest.mark.parametrize("again", range(8))
def test_start_that_loses_its_power_while_it_finishes_a_move_loses_neither_directory(
    again: int, stops_in_two_directories: list[int]
) -> None:
    assert stops_in_two_directories
    for stop in stops_in_two_directories[:2]:
        for seed in range(4):
            broker, writers, _ = killed_at(stop)
            broker.disk.lose_by(random.Random(seed))
            disk_of(broker).changes_left = again
            with suppress(PowerCut):
                broker.restart()
            disk_of(broker).changes_left = None
            broker.disk.crash()
            broker.disk.steps.clear()
            broker.restart()
            broker.settle()
            assert len(place_of(broker)) == 1
            assert numbers_in(visible(broker, 0)) == set(writers.committed)


def test_start_removes_the_old_directory_when_the_name_of_the_new_one_is_durable(
    stops_in_two_directories: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing says in what order two disks keep their names."""
    broker, _, _ = killed_at(stops_in_two_directories[0])
    removed: list[bool] = []

    def remove(path: str) -> None:
        if path.endswith(f"/{TOPIC}-0"):
            new = other(path.removesuffix(f"/{TOPIC}-0"))
            removed.append(any(name.startswith(f"{new}/{TOPIC}-0/") for name in broker.disk.names.durable))
        SteppedDisk.remove(broker.disk, path)

    monkeypatch.setattr(broker.disk, "remove", remove)
    broker.restart()
    assert removed == [True]


def take_all_steps_but(broker: BrokerInMemory, held: list[Callable[[], None]]) -> None:
    """What the disk is slow with comes last."""
    broker.disk.steps = deque(step for step in broker.disk.steps if step not in held)
    broker.settle()


def open_transaction(broker: BrokerInMemory) -> ProducerInMemory:
    producer = ProducerInMemory(broker, TV2)
    producer.write(LARGE, 1)
    broker.settle()
    return producer


def test_switch_waits_for_a_sync_of_the_log_that_is_under_way() -> None:
    """Whoever waits for it is told that something is durable, and would be told so of the old directory."""
    broker = new_broker()
    producer = open_transaction(broker)
    end = producer.send_end(committed=True)
    held = list(broker.disk.steps)
    assert held, "the transaction's records are synced where they are"
    send_move(broker, B)
    take_all_steps_but(broker, held)
    assert place_of(broker) == [A]
    assert not end.came
    broker.disk.steps.extend(held)
    broker.settle()
    assert end.came
    assert place_of(broker) == [B]


def test_nothing_is_said_to_be_durable_before_the_new_name_is() -> None:
    broker = new_broker()
    producer = open_transaction(broker)
    send_move(broker, B)
    while len(place_of(broker)) == 1:
        assert broker.disk.take_step()
    held = list(broker.disk.steps)
    assert held, "a checkpoint is under way, which makes the name durable"
    end = producer.send_end(committed=True)
    log_of(broker).append_marker(ControlType.ABORT, 12345, 0, 0, 1, 0)
    take_all_steps_but(broker, held)
    assert not end.came
    broker.disk.steps.extend(held)
    broker.settle()
    assert end.came
    assert place_of(broker) == [B]


@pytest.mark.parametrize("seed", range(20))
def test_commit_that_is_answered_around_the_switch_survives_a_power_cut(seed: int) -> None:
    """Ends of transactions are under way while the log changes its directory, and the power is cut after any step."""
    broker, writers, draw = filled(seed)
    target = other(place_of(broker)[0])
    for number, producer in enumerate(writers.producers):
        if writers.open[number] is None:
            writers.open[number] = f"{100 + number}:"
            producer.write(f"{100 + number}:", 1)
    ends: list[tuple[str, Reply]] = []
    send_move(broker, target)
    for _ in range(draw.randrange(60)):
        action = draw.random()
        number = draw.randrange(2)
        value = writers.open[number]
        if action < 0.2 and value is not None and not ends:
            writers.producers[number].write(value + LARGE, 1)
            ends.append((value, writers.producers[number].send_end(committed=True)))
            writers.open[number] = None
        elif broker.disk.steps:
            # Threads sync: what was asked for first need not be done first.
            broker.disk.steps.rotate(draw.randrange(len(broker.disk.steps)))
            broker.disk.take_step()
    answered = {value for value, reply in ends if reply.came}
    broker.disk.crash()
    broker.disk.steps.clear()
    broker.restart()
    broker.settle()
    assert len(place_of(broker)) == 1
    seen = numbers_in(visible(broker, 0))
    assert set(writers.committed) | answered <= seen <= set(writers.committed) | {value for value, _ in ends}
    assert numbers_in(visible(broker, 1)) == seen


def test_reader_that_waits_is_answered_from_the_new_directory() -> None:
    broker = new_broker()
    producer = ProducerInMemory(broker, TV2)
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": TOPIC, "partitions": [asked]}]
    fetch = {"min_bytes": 1, "isolation_level": 1, "topics": topics, "forgotten_topics_data": []}
    waiting = broker.send("fetch", 11, max_wait=timedelta(seconds=30), **fetch)
    assert move(broker, B) is NONE
    broker.settle()
    assert place_of(broker) == [B]
    assert not waiting.came
    producer.write("value", 1)
    producer.end(committed=True)
    broker.settle()
    assert waiting.came
    assert waiting.message.responses[0].partitions[0].records


def future_of(broker: BrokerInMemory, index: int = 0) -> dict[str, Any]:
    """What DescribeLogDirs says of the partition in each directory."""
    topics = [{"topic": TOPIC, "partitions": [index]}]
    results = broker.send("describe_log_dirs", 4, topics=topics).message.results
    return {one.log_dir: item for one in results for topic in one.topics for item in topic.partitions}


def test_future_log_is_described_with_its_lag_until_it_has_arrived() -> None:
    broker, _, _ = filled(0)
    source = place_of(broker)[0]
    broker.settle()
    log = log_of(broker)
    assert move(broker, other(source)) is NONE
    described = future_of(broker)
    assert not described[source].is_future_key
    assert described[source].partition_size == log.size_bytes
    assert described[other(source)].is_future_key
    assert 0 < described[other(source)].offset_lag <= log.log_end_offset
    broker.settle()
    (described_now,) = future_of(broker).items()
    assert described_now[0] == other(source)
    assert not described_now[1].is_future_key
    assert log_of(broker) is log


@pytest.mark.parametrize("end", ["cancel", "elsewhere", "delete"])
@pytest.mark.parametrize("steps", range(7))
def test_move_is_taken_back_changed_or_ended_by_deletion_at_any_step(end: str, steps: int) -> None:
    broker, _, _ = filled(3)
    source = place_of(broker)[0]
    broker.settle()
    broker.core.stop()
    broker.directories = (A, B, C)
    broker.restart()
    broker.settle()
    before = state(broker)
    assert move(broker, other(source)) is NONE
    for _ in range(steps):
        broker.disk.take_step()
    if end == "delete":
        deleted = broker.ask("delete_topics", 5, topic_names=[TOPIC], timeout=MINUTE)
        assert deleted.responses[0].error_code is NONE
        broker.settle()
        assert place_of(broker) == []
        make_topic(broker)
        assert log_of(broker).log_end_offset == 0
    else:
        wanted = source if end == "cancel" else C
        assert move(broker, wanted) is NONE
        broker.settle()
        assert place_of(broker) == [wanted]
        assert state(broker) == before
    assert not leftovers(broker)
    broker.core.stop()
    broker.restart()
    assert len(place_of(broker)) == 1


@pytest.mark.parametrize("steps", range(7))
def test_log_that_goes_offline_at_any_step_moves_no_more(steps: int) -> None:
    broker, _, _ = filled(3)
    source = place_of(broker)[0]
    broker.settle()
    assert move(broker, other(source)) is NONE
    for _ in range(steps):
        broker.disk.take_step()
    partition = partition_of(broker)
    broker.core.topics.take_offline(partition, DamagedLogError("it is broken"))
    arrive(broker)
    assert not broker.core.moves._moves
    assert partition.is_offline
    broker.core.stop()


def test_records_are_deleted_while_their_log_is_on_its_way() -> None:
    broker, _, _ = filled(0, log_retention_check_interval_ms="1000")
    log = log_of(broker)
    source = place_of(broker)[0]
    broker.settle()
    assert move(broker, other(source)) is NONE
    broker.disk.take_step()
    before = log.last_stable_offset
    topics = [{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": before}]}]
    deleted = broker.ask("delete_records", 2, topics=topics, timeout=MINUTE)
    assert deleted.topics[0].partitions[0].error_code is NONE
    broker.clock.advance(1001)
    broker.settle()
    assert place_of(broker) == [other(source)]
    kept = [name for name in broker.disk.list_directory(f"{other(source)}/{TOPIC}-0") if name.endswith(".log")]
    assert kept[0] == f"{log.segments[0].base_offset:020d}.log"
    now = state(broker)
    broker.disk.kill()
    broker.restart()
    assert log_of(broker).log_start_offset == before
    assert [part[:7] for part in state(broker)] == [part[:7] for part in now]


def test_what_cannot_be_moved_is_refused_with_kafkas_errors() -> None:
    broker = new_broker()
    assert move(broker, "/nowhere") is ErrorCode.log_dir_not_found
    assert move(broker, B, "unknown") is ErrorCode.unknown_topic_or_partition
    assert move(broker, B, TOPIC, 9) is ErrorCode.unknown_topic_or_partition
    broker.core.topics.take_offline(partition_of(broker), DamagedLogError("it is broken"))
    assert move(broker, B) is ErrorCode.kafka_storage_error
    both = [{"path": path, "topics": [{"name": TOPIC, "partitions": [1]}]} for path in (B, "/nowhere")]
    (topic,) = broker.ask("alter_replica_log_dirs", 1, dirs=both).results
    assert [(item.partition_index, item.error_code) for item in topic.partitions] == [(1, ErrorCode.log_dir_not_found)]
    assert broker.ask("alter_replica_log_dirs", 2, dirs=[]).results == ()


def test_directory_of_a_partition_that_is_not_there_is_remembered_until_it_is_made() -> None:
    broker = new_broker()
    for index, path in enumerate((B, B, A)):
        assert move(broker, path, "later", index) is ErrorCode.unknown_topic_or_partition
    topic = {"name": "later", "num_partitions": 3, "replication_factor": 1, "assignments": [], "configs": []}
    broker.ask("create_topics", 5, topics=[topic], timeout=MINUTE)
    assert [place_of(broker, f"later-{index}") for index in range(3)] == [[B], [B], [A]]


@pytest.mark.parametrize("topic", ["__transaction_state", "__consumer_offsets"])
def test_log_of_a_coordinator_is_moved_under_its_transactions(topic: str) -> None:
    broker, writers, draw = filled(5)
    source = place_of(broker, f"{topic}-0")[0]
    assert move(broker, other(source), topic) is NONE
    for _ in range(10):
        writers.act(draw)
    broker.settle()
    assert place_of(broker, f"{topic}-0") == [other(source)]
    broker.disk.crash()
    broker.restart()
    broker.settle()
    assert set(writers.committed) == numbers_in(visible(broker, 0)) == numbers_in(visible(broker, 1))


@pytest.mark.parametrize("write", [True, False], ids=["at once", "later"])
def test_directory_that_fails_ends_the_move_and_nothing_else(write: bool) -> None:
    broker, writers, draw = filled(2)
    source = place_of(broker)[0]
    broker.settle()
    if write:
        disk_of(broker).refusing = f"{other(source)}/{TOPIC}"
        assert move(broker, other(source)) is ErrorCode.kafka_storage_error
    else:
        assert move(broker, other(source)) is NONE
        disk_of(broker).refusing = f"{other(source)}/{TOPIC}"
    broker.settle()
    disk_of(broker).refusing = None
    broker.settle()
    assert place_of(broker) == [source]
    assert future_of(broker).keys() == {source}
    assert not broker.failures
    assert not leftovers(broker)
    for _ in range(4):
        writers.act(draw)
    assert move(broker, other(source)) is NONE
    broker.settle()
    assert place_of(broker) == [other(source)]


def test_old_directory_stays_where_the_new_one_fails_before_its_name_is_durable() -> None:
    """And nothing is said to be durable that is so in neither."""
    broker = new_broker()
    producer = open_transaction(broker)
    send_move(broker, B)
    while len(place_of(broker)) == 1:
        assert broker.disk.take_step()
    end = producer.send_end(committed=True)
    broker.core.survives(DiskError(f"{B} fails", f"{B}/{TOPIC}-0"))
    assert partition_of(broker).is_offline
    broker.settle()
    assert place_of(broker) == [A, B]
    assert not end.came or end.message.error_code is not NONE
    assert not broker.failures


def test_log_is_not_cleaned_while_it_is_on_its_way_and_is_afterwards() -> None:
    broker, _, _ = filled(0)
    source = place_of(broker)[0]
    topic = "__transaction_state"
    log = log_of(broker, 0, topic)
    source = place_of(broker, f"{topic}-0")[0]
    broker.settle()
    log.compaction.roll_overdue(broker.clock.now_ms())
    assert move(broker, other(source), topic) is NONE
    assert log.compaction.dirt(broker.clock.now_ms()) is None
    broker.settle()
    log.files.roll(broker.clock.now_ms())
    assert log.compaction.dirt(broker.clock.now_ms()) is not None


def test_move_goes_on_after_a_clean_stop() -> None:
    broker, _, _ = filled(4)
    source = place_of(broker)[0]
    broker.settle()
    before = unchanging(broker)
    assert move(broker, other(source)) is NONE
    broker.core.stop()
    broker.disk.steps.clear()
    assert any(name.endswith("-future") for name in broker.disk.list_directory(other(source)))
    broker.restart()
    assert broker.core.start_report.was_clean
    assert unchanging(broker) == before
    broker.settle()
    assert place_of(broker) == [other(source)]
    assert not leftovers(broker)


def test_copy_of_a_topic_that_is_gone_or_unknown_is_removed_by_the_start() -> None:
    broker = new_broker()
    broker.core.stop()
    for name in (f"gone-0.{'0' * 32}-future", f"{TOPIC}-0.{'1' * 32}-future"):
        broker.disk.make_directory(f"{B}/{name}")
        broker.disk.replace_file(f"{B}/{name}/{0:020d}.log", b"what was copied")
    broker.restart()
    broker.settle()
    assert not leftovers(broker)
    assert place_of(broker) == [A]


def test_topic_with_the_longest_name_is_moved() -> None:
    broker = new_broker()
    name = "n" * 249
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    broker.ask("create_topics", 5, topics=[topic], timeout=MINUTE)
    source = place_of(broker, f"{name}-0")[0]
    assert move(broker, other(source), name) is NONE
    broker.core.stop()
    broker.disk.steps.clear()
    broker.restart()
    broker.settle()
    assert place_of(broker, f"{name}-0") == [other(source)]
