"""Long work in slices, and what may happen between two of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from harness.broker_in_memory import DIRECTORY, BrokerInMemory, Reply, SteppedDisk
from harness.manual_clock import ManualClock
from oncelog.broker.slices import SLICE_MS, Slices
from oncelog.wire import ErrorCode

WAIT = timedelta(seconds=10)


class TickingClock(ManualClock):
    """Each look at it takes a millisecond, so that a slice is a few steps."""

    def monotonic_ms(self) -> float:
        self._now_ms += 1
        return self._now_ms


def steps(name: str, count: int, taken: list[str]) -> Iterator[None]:
    for _ in range(count):
        taken.append(name)
        yield


def test_work_goes_on_after_others_were_served():
    clock, taken = TickingClock(), list[str]()
    over = Slices(clock).run(steps("a", 10, taken))
    assert 0 < len(taken) <= SLICE_MS
    assert not over.is_resolved
    while not over.is_resolved:
        before = len(taken)
        clock.advance(1)
        assert len(taken) <= before + SLICE_MS
    assert len(taken) == 10


def test_one_piece_of_work_comes_after_the_other():
    clock, taken = TickingClock(), list[str]()
    slices = Slices(clock)
    first, second = slices.run(steps("a", 7, taken)), slices.run(steps("b", 7, taken))
    while not second.is_resolved:
        clock.advance(1)
    assert first.is_resolved
    assert taken == ["a"] * 7 + ["b"] * 7


def test_much_short_work_of_one_moment_is_one_slice():
    """A hundred topics that are durable together are not all made before anybody else is served."""
    clock, taken = TickingClock(), list[str]()
    slices = Slices(clock)
    works = [slices.run(steps(str(number), 1, taken)) for number in range(20)]
    assert len(taken) <= SLICE_MS
    while not works[-1].is_resolved:
        clock.advance(1)
    assert taken == [str(number) for number in range(20)]


def test_where_time_stands_still_all_of_it_is_one_slice():
    taken: list[str] = []
    assert Slices(ManualClock()).run(steps("a", 1000, taken)).is_resolved
    assert len(taken) == 1000


PARTITIONS = 30


def broker() -> BrokerInMemory:
    return BrokerInMemory(SteppedDisk(), TickingClock())


def create(node: BrokerInMemory, name: str, partitions: int) -> Reply:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}
    return node.send("create_topics", 5, topics=[topic], timeout=WAIT, validate_only=False)


def delete(node: BrokerInMemory, name: str) -> Reply:
    return node.send("delete_topics", 4, topic_names=[name], timeout=WAIT)


def finish(node: BrokerInMemory, *replies: Reply) -> list[Any]:
    while not all(reply.came for reply in replies):
        node.disk.take_step()
        node.clock.advance(1)
    return [reply.message for reply in replies]


def partition_count(node: BrokerInMemory, name: str) -> int:
    topic = node.core.topics.named(name)
    return 0 if topic is None else len(topic.partitions)


def test_topic_is_not_there_before_all_of_its_partitions_are():
    node = broker()
    reply = create(node, "t", PARTITIONS)
    while not reply.came:
        assert partition_count(node, "t") == 0
        node.disk.take_step()
        node.clock.advance(1)
    assert partition_count(node, "t") == PARTITIONS


def test_topic_that_is_being_made_gets_what_the_broker_is_set_to_meanwhile():
    node = broker()
    made = create(node, "t", PARTITIONS)
    # The directories of the first partitions are there, and the topic is not.
    while "t-0" not in node.disk.list_directory(DIRECTORY):
        node.disk.take_step()
        node.clock.advance(1)
    assert not made.came
    configs = [{"name": "log.segment.bytes", "config_operation": 0, "value": "2000000"}]
    resource = {"resource_type": 4, "resource_name": "", "configs": configs}
    altered = node.send("incremental_alter_configs", 1, resources=[resource], validate_only=False)
    finish(node, made, altered)
    assert altered.message.responses[0].error_code is ErrorCode.none
    topic = node.core.topics.named("t")
    assert topic is not None
    assert {partition.log.files.config.segment_bytes for partition in topic.partitions} == {2_000_000}


def test_topic_made_anew_waits_until_the_old_one_is_gone():
    """Its directories have the same names."""
    node = broker()
    finish(node, create(node, "t", PARTITIONS))
    old = node.core.topics.named("t")
    gone = delete(node, "t")
    while node.core.topics.named("t") is old:
        node.disk.take_step()
        node.clock.advance(1)
    assert not gone.came
    made = create(node, "t", PARTITIONS)
    deleted, created = finish(node, gone, made)
    assert deleted.responses[0].error_code is ErrorCode.none
    assert created.topics[0].error_code is ErrorCode.none
    assert partition_count(node, "t") == PARTITIONS
    node.core.stop()
    node.restart()
    assert partition_count(node, "t") == PARTITIONS


def test_topic_that_grows_is_deleted_with_all_it_has():
    node = broker()
    finish(node, create(node, "t", 1))
    wanted = {"name": "t", "count": PARTITIONS, "assignments": None}
    grown = node.send("create_partitions", 2, topics=[wanted], timeout=WAIT, validate_only=False)
    gone = delete(node, "t")
    finish(node, grown, gone)
    assert partition_count(node, "t") == 0
    assert not [name for name in node.disk.list_directory(DIRECTORY) if name in {f"t-{n}" for n in range(PARTITIONS)}]
