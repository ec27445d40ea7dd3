"""Fetch: limits, waiting, isolation and sessions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import Mock, patch

import pytest
from kio.schema.errors import ErrorCode

from harness.broker_in_memory import BrokerInMemory, Reply, SteppedDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import MINUTE, TOPIC, TV1, TV2, ProducerInMemory, Protocol, make_topic
from oncelog.broker import fetching
from oncelog.broker.fetch_sessions import ALL_EVERY_MS, PARTITION_BYTES, STALE_MS
from oncelog.coordination import Promise
from oncelog.log import PartitionLog
from oncelog.records import Record, batches, build_batch

COMMITTED, UNCOMMITTED = 1, 0


@pytest.fixture
def broker() -> BrokerInMemory:
    broker = BrokerInMemory(SteppedDisk(), ManualClock())
    make_topic(broker)
    return broker


def append(broker: BrokerInMemory, value: str, partition: int = 0) -> None:
    batch = build_batch([Record(None, value.encode(), timestamp_ms=broker.clock.now_ms())])
    data = {"name": TOPIC, "partition_data": [{"index": partition, "records": batch}]}
    answer = broker.ask("produce", 9, acks=-1, timeout=MINUTE, topic_data=[data])
    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none


def send(
    broker: BrokerInMemory,
    *partitions: tuple[int, int],
    wait_ms: int = 0,
    min_bytes: int = 0,
    max_bytes: int = 2**20,
    isolation: int = UNCOMMITTED,
    session: tuple[int, int] = (0, -1),
    forgotten: tuple[int, ...] = (),
    leader_epoch: int = -1,
) -> Reply:
    asked = [
        {"partition": index, "fetch_offset": offset, "partition_max_bytes": 2**20, "current_leader_epoch": leader_epoch}
        for index, offset in partitions
    ]
    return broker.send(
        "fetch",
        11,
        max_wait=timedelta(milliseconds=wait_ms),
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session[0],
        session_epoch=session[1],
        topics=[{"topic": TOPIC, "partitions": asked}] if asked else [],
        forgotten_topics_data=[{"topic": TOPIC, "partitions": list(forgotten)}] if forgotten else [],
    )


def fetch(broker: BrokerInMemory, *partitions: tuple[int, int], **options: Any) -> dict[int, Any]:
    reply = send(broker, *partitions, **options)
    assert reply.came
    return {found.partition_index: found for topic in reply.message.responses for found in topic.partitions}


def offsets_in(records: bytes) -> list[int]:
    return [header.base_offset for _, header in batches(records)]


def test_fetch_with_nothing_to_read_waits_until_a_record_comes(broker: BrokerInMemory) -> None:
    reply = send(broker, (0, 0), wait_ms=500, min_bytes=1)
    assert not reply.came
    append(broker, "a")
    assert reply.came
    assert offsets_in(reply.message.responses[0].partitions[0].records) == [0]


def test_fetch_with_nothing_to_read_is_answered_empty_when_its_time_is_up(broker: BrokerInMemory) -> None:
    reply = send(broker, (0, 0), wait_ms=500, min_bytes=1)
    broker.clock.advance(499)
    assert not reply.came
    broker.clock.advance(1)
    assert reply.came
    assert not reply.message.responses[0].partitions[0].records


def delete_before(broker: BrokerInMemory, offset: int) -> None:
    topics = [{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": offset}]}]
    (topic,) = broker.ask("delete_records", 2, topics=topics, timeout=MINUTE).topics
    assert (topic.partitions[0].error_code, topic.partitions[0].low_watermark) == (ErrorCode.none, offset)


def test_deleted_records_are_in_no_answer_but_the_batch_that_the_log_begins_in(broker: BrokerInMemory) -> None:
    """Also not in that of a reader that waited meanwhile; a session tells where the log begins now."""
    for size in (2, 3):
        batch = build_batch([Record(None, b"v", timestamp_ms=broker.clock.now_ms())] * size)
        data = {"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}
        broker.ask("produce", 9, acks=-1, timeout=MINUTE, topic_data=[data])
    opened = send(broker, (0, 5), session=(0, 0)).message
    waiting = send(broker, (0, 1), wait_ms=500, min_bytes=100_000)
    delete_before(broker, 3)
    found = fetch(broker, (0, 3))[0]
    assert (offsets_in(found.records), found.log_start_offset) == ([2], 3)
    for offset in (0, 1, 2):
        refused = fetch(broker, (0, offset))[0]
        assert refused.error_code is ErrorCode.offset_out_of_range
        assert not refused.records
    broker.clock.advance(500)
    waited = waiting.message.responses[0].partitions[0]
    assert (waited.error_code, waited.records or b"") == (ErrorCode.offset_out_of_range, b"")
    told = send(broker, session=(opened.session_id, 1)).message.responses[0].partitions[0]
    assert (told.error_code, told.log_start_offset) == (ErrorCode.none, 3)


def test_min_bytes_counts_over_all_partitions(broker: BrokerInMemory) -> None:
    reply = send(broker, (0, 0), (1, 0), wait_ms=500, min_bytes=120)
    append(broker, "a", 0)
    assert not reply.came
    append(broker, "b", 1)
    assert reply.came


def test_waiting_for_many_bytes_reads_nothing_until_they_are_there(
    broker: BrokerInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(broker, "before")
    reads: list[int] = []
    read = PartitionLog.read
    monkeypatch.setattr(PartitionLog, "read", lambda log, *asked: reads.append(asked[0]) or read(log, *asked))
    reply = send(broker, (0, 1), wait_ms=500, min_bytes=1000)
    for _ in range(12):
        append(broker, "x")
    assert not reply.came
    append(broker, "x" * 500)
    assert reply.came
    assert offsets_in(reply.message.responses[0].partitions[0].records) == list(range(1, 14))
    assert reads == [1]


def test_first_batch_is_given_even_if_it_is_larger_than_the_limits(broker: BrokerInMemory) -> None:
    """KIP-74: a consumer must be able to make progress."""
    append(broker, "x" * 500, 0)
    append(broker, "y" * 500, 1)
    found = fetch(broker, (0, 0), (1, 0), max_bytes=10)
    assert offsets_in(found[0].records) == [0]
    assert not found[1].records


def test_offset_outside_the_log_is_out_of_range(broker: BrokerInMemory) -> None:
    append(broker, "a")
    assert fetch(broker, (0, 2))[0].error_code is ErrorCode.offset_out_of_range
    assert fetch(broker, (0, 1))[0].error_code is ErrorCode.none


def test_unknown_partition_is_answered_beside_the_known_ones(broker: BrokerInMemory) -> None:
    append(broker, "a")
    found = fetch(broker, (0, 0), (9, 0), wait_ms=500, min_bytes=10_000)
    assert found[9].error_code is ErrorCode.unknown_topic_or_partition
    assert offsets_in(found[0].records) == [0]


def test_leader_epoch_of_an_earlier_start_is_fenced(broker: BrokerInMemory) -> None:
    """KIP-320: a client that has not heard of the new leader epoch may have read what a crash cut off."""
    broker.disk.kill()
    broker.restart()
    epoch = broker.core.leader_epoch
    assert fetch(broker, (0, 0), leader_epoch=epoch - 1)[0].error_code is ErrorCode.fenced_leader_epoch
    assert fetch(broker, (0, 0), leader_epoch=epoch + 1)[0].error_code is ErrorCode.unknown_leader_epoch
    assert fetch(broker, (0, 0), leader_epoch=epoch)[0].error_code is ErrorCode.none


def after_epoch(broker: BrokerInMemory, offset: int, last_fetched_epoch: int) -> Any:
    asked = {
        "partition": 0,
        "fetch_offset": offset,
        "partition_max_bytes": 2**20,
        "last_fetched_epoch": last_fetched_epoch,
    }
    topics = [{"topic": TOPIC, "partitions": [asked]}]
    return (
        broker.ask("fetch", 12, max_wait=timedelta(0), min_bytes=0, topics=topics, forgotten_topics_data=[])
        .responses[0]
        .partitions[0]
    )


def test_reader_of_another_history_is_told_where_the_two_part(broker: BrokerInMemory) -> None:
    """KIP-595: the answer has the epoch and the end offset of the log where what the reader has read is not in it.

    An epoch that the log never had is OFFSET_OUT_OF_RANGE.
    """
    append(broker, "a")
    epoch = broker.core.leader_epoch
    broker.disk.kill()
    broker.restart()
    append(broker, "b")
    append(broker, "c")
    assert offsets_in(after_epoch(broker, 1, epoch).records) == [1, 2]
    parted = after_epoch(broker, 2, epoch)
    assert (parted.diverging_epoch.epoch, parted.diverging_epoch.end_offset) == (epoch, 1)
    assert not parted.records
    assert after_epoch(broker, 2, broker.core.leader_epoch + 1).error_code is ErrorCode.offset_out_of_range


def test_offset_from_before_the_log_begins_is_out_of_range_whatever_its_epoch_is(broker: BrokerInMemory) -> None:
    append(broker, "a")
    append(broker, "b")
    epoch = broker.core.leader_epoch
    for _ in range(2):
        broker.disk.kill()
        broker.restart()
    append(broker, "c")
    assert after_epoch(broker, 0, epoch + 1).diverging_epoch.epoch == epoch
    partition = broker.core.topics.partition(TOPIC, 0)
    assert partition is not None
    partition.log.advance_log_start(1)
    assert after_epoch(broker, 0, epoch + 1).error_code is ErrorCode.offset_out_of_range
    assert after_epoch(broker, 1, epoch + 1).diverging_epoch.epoch == epoch


@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
@pytest.mark.parametrize("committed", [True, False])
def test_reader_parked_at_the_last_stable_offset_wakes_when_the_transaction_ends(
    broker: BrokerInMemory, protocol: Protocol, committed: bool
) -> None:
    producer = ProducerInMemory(broker, protocol)
    producer.write("a", 1)
    reply = send(broker, (0, 0), wait_ms=10_000, min_bytes=1, isolation=COMMITTED)
    assert not reply.came
    producer.end(committed=committed)
    broker.settle()
    assert reply.came
    (found,) = reply.message.responses[0].partitions
    assert offsets_in(found.records) == [0, 1]
    assert [entry.first_offset for entry in found.aborted_transactions] == ([] if committed else [0])
    assert found.last_stable_offset == 2


def test_reader_of_uncommitted_records_gets_no_aborted_list(broker: BrokerInMemory) -> None:
    producer = ProducerInMemory(broker, TV1)
    producer.write("a", 1)
    producer.end(committed=False)
    broker.settle()
    assert fetch(broker, (0, 0), isolation=UNCOMMITTED)[0].aborted_transactions is None
    assert fetch(broker, (0, 2), isolation=COMMITTED)[0].aborted_transactions == ()


class MemoryThatComesLater:
    """Notes what an answer may take at most and at least, and gives when it is told to."""

    def __init__(self, broker: BrokerInMemory) -> None:
        self.asked: list[tuple[int, int]] = []
        self.granted: Promise[int] = Promise()
        broker.connection.reserve = self.reserve  # type: ignore[method-assign]

    def reserve(self, most_bytes: int, least_bytes: int) -> Promise[int]:
        self.asked.append((most_bytes, least_bytes))
        return self.granted


def test_large_answer_waits_for_its_memory_and_is_as_long_as_there_is(broker: BrokerInMemory) -> None:
    for _ in range(3):
        append(broker, "x" * 100_000)
    memory = MemoryThatComesLater(broker)
    reply = send(broker, (0, 0))
    assert not reply.came
    batch_bytes = memory.asked[0][1]
    assert memory.asked == [(3 * batch_bytes, batch_bytes)]
    memory.granted.resolve(2 * batch_bytes)
    assert offsets_in(reply.message.responses[0].partitions[0].records) == [0, 1]


def test_answer_asks_for_no_more_memory_than_its_limits_allow_but_for_the_first_batch(broker: BrokerInMemory) -> None:
    for _ in range(3):
        append(broker, "x" * 100_000)
    memory = MemoryThatComesLater(broker)
    send(broker, (0, 0), max_bytes=1000)
    most_bytes, least_bytes = memory.asked[0]
    assert (most_bytes, least_bytes > 100_000) == (1000, True)


def test_small_answer_has_its_memory_in_any_case(broker: BrokerInMemory) -> None:
    append(broker, "x" * 50_000)
    memory = MemoryThatComesLater(broker)
    assert send(broker, (0, 0)).came
    assert not memory.asked


def test_topic_that_is_deleted_while_its_reader_waits_for_memory_is_unknown(broker: BrokerInMemory) -> None:
    append(broker, "x" * 100_000)
    memory = MemoryThatComesLater(broker)
    reply = send(broker, (0, 0))
    broker.ask("delete_topics", 5, topic_names=[TOPIC], timeout=MINUTE)
    memory.granted.resolve(10**6)
    assert reply.message.responses[0].partitions[0].error_code is ErrorCode.unknown_topic_or_partition


def test_reader_that_leaves_while_it_waits_for_memory_leaves_nothing_behind(broker: BrokerInMemory) -> None:
    append(broker, "x" * 100_000)
    memory = MemoryThatComesLater(broker)
    reply = send(broker, (0, 0))
    reply.end()
    memory.granted.resolve(10**6)
    assert not reply.came
    assert broker.failures == []


def test_answer_of_many_parts_is_the_log_byte_for_byte(broker: BrokerInMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    """However a part and a batch lie, and whatever the limit."""
    for number in range(12):
        append(broker, str(number) * (20_000 + 7_000 * (number % 3)))
    whole = fetch(broker, (0, 0))[0].records
    for part_bytes in (1, 30_000, 61_000, 100_000, 2**20):
        monkeypatch.setattr(fetching, "READ_AT_ONCE_BYTES", part_bytes)
        for max_bytes in (1, 25_000, 80_000, 200_000, len(whole), 2**20):
            found = fetch(broker, (0, 0), max_bytes=max_bytes)[0].records
            assert whole.startswith(found)
            last = offsets_in(found)[-1]
            more = [size for offset, size in sizes_in(whole) if offset == last + 1]
            assert len(found) <= max_bytes or last == 0
            assert not more or len(found) + more[0] > max_bytes, "nothing that fits is left out"


def sizes_in(records: bytes) -> list[tuple[int, int]]:
    return [(header.base_offset, header.size_bytes) for _, header in batches(records)]


def test_answer_that_the_machine_has_no_memory_for_is_refused(broker: BrokerInMemory) -> None:
    append(broker, "x")
    with patch.object(PartitionLog, "read", side_effect=MemoryError):
        reply = send(broker, (0, 0))
    assert reply.message is None
    assert broker.connection.closed == "its Fetch request is refused: the machine has no memory for it"
    assert broker.failures == []
    assert offsets_in(fetch(broker, (0, 0))[0].records) == [0]


def test_session_answers_only_what_is_new(broker: BrokerInMemory) -> None:
    """KIP-227: an incremental answer holds the partitions that changed."""
    append(broker, "a", 0)
    first = send(broker, (0, 0), (1, 0), session=(0, 0)).message
    session = first.session_id
    assert session != 0
    assert len(first.responses[0].partitions) == 2
    quiet = send(broker, (0, 1), session=(session, 1)).message
    assert quiet.responses == ()
    append(broker, "b", 1)
    changed = send(broker, session=(session, 2)).message
    assert [found.partition_index for found in changed.responses[0].partitions] == [1]


def test_forgotten_partition_is_answered_no_more(broker: BrokerInMemory) -> None:
    session = send(broker, (0, 0), (1, 0), session=(0, 0)).message.session_id
    send(broker, session=(session, 1), forgotten=(0,))
    append(broker, "a", 0)
    append(broker, "b", 1)
    changed = send(broker, session=(session, 2)).message
    assert [found.partition_index for found in changed.responses[0].partitions] == [1]


def test_wrong_session_or_epoch_makes_the_client_begin_again(broker: BrokerInMemory) -> None:
    session = send(broker, (0, 0), session=(0, 0)).message.session_id
    assert send(broker, session=(session, 7)).message.error_code is ErrorCode.invalid_fetch_session_epoch
    assert send(broker, session=(session + 1, 1)).message.error_code is ErrorCode.fetch_session_id_not_found
    send(broker, (0, 0), session=(session, -1))
    assert send(broker, session=(session, 1)).message.error_code is ErrorCode.fetch_session_id_not_found


def test_fetch_of_a_session_looks_at_what_has_moved(broker: BrokerInMemory) -> None:
    session = send(broker, (0, 0), (1, 0), session=(0, 0)).message.session_id
    send(broker, session=(session, 1))
    append(broker, "a", 1)
    with patch.object(fetching, "epoch_problem", Mock(wraps=fetching.epoch_problem)) as looks:
        changed = send(broker, session=(session, 2), wait_ms=500, min_bytes=1).message
    assert [found.partition_index for found in changed.responses[0].partitions] == [1]
    assert {call.args[0].index for call in looks.call_args_list} == {1}


def test_session_is_told_within_half_a_second_of_what_moves_no_partition(broker: BrokerInMemory) -> None:
    session = send(broker, (0, 0), (1, 0), session=(0, 0)).message.session_id
    assert send(broker, session=(session, 1)).message.responses == ()
    partition = broker.core.topics.partition(TOPIC, 0)
    assert partition is not None
    partition.damage = "damaged"
    broker.clock.advance(ALL_EVERY_MS)
    told = send(broker, session=(session, 2)).message.responses[0].partitions
    assert [(one.partition_index, one.error_code) for one in told] == [(0, ErrorCode.kafka_storage_error)]


def test_error_is_told_a_session_again_and_again(broker: BrokerInMemory) -> None:
    session = send(broker, (0, 7), (1, 0), session=(0, 0)).message.session_id
    for epoch in range(1, 4):
        told = send(broker, session=(session, epoch), wait_ms=500, min_bytes=1).message.responses[0].partitions
        assert [(one.partition_index, one.error_code) for one in told] == [(0, ErrorCode.offset_out_of_range)]


def test_partition_that_had_no_room_in_an_answer_comes_with_the_next(broker: BrokerInMemory) -> None:
    append(broker, "a" * 1000, 0)
    append(broker, "b" * 1000, 1)
    session, found = (0, 0), []
    offsets = [0, 0]
    for epoch in range(1, 3):
        answer = send(broker, *enumerate(offsets), session=session, max_bytes=1000, wait_ms=500, min_bytes=1).message
        session = (answer.session_id, epoch)
        with_records = [one.partition_index for one in answer.responses[0].partitions if one.records]
        found += with_records
        for index in with_records:
            offsets[index] = 1
    assert sorted(found) == [0, 1]


def test_records_that_a_session_asks_for_twice_are_given_twice(broker: BrokerInMemory) -> None:
    append(broker, "a")
    session = send(broker, (0, 0), session=(0, 0)).message.session_id
    for epoch in range(1, 3):
        again = send(broker, session=(session, epoch), wait_ms=500, min_bytes=1).message
        assert offsets_in(again.responses[0].partitions[0].records) == [0]


def test_sessions_that_nobody_uses_watch_a_partition_until_it_moves_once(broker: BrokerInMemory) -> None:
    for _ in range(3):
        session = send(broker, (0, 0), session=(0, 0)).message.session_id
        assert goes_on(broker, session, 1)
    partition = broker.core.topics.partition(TOPIC, 0)
    assert partition is not None
    assert len(partition._watchers) == 3
    send(broker, (0, 0), session=(session, -1))
    assert len(partition._watchers) == 2
    append(broker, "a")
    assert not partition._watchers


def test_waiting_fetch_of_a_session_waits_until_there_is_enough(broker: BrokerInMemory) -> None:
    session = send(broker, (0, 0), (1, 0), session=(0, 0)).message.session_id
    reply = send(broker, session=(session, 1), wait_ms=10_000, min_bytes=300)
    for index in (0, 1, 0, 1):
        assert not reply.came
        append(broker, "a" * 10, index)
        broker.settle()
    assert reply.came
    assert [offsets_in(one.records) for one in reply.message.responses[0].partitions] == [[0, 1], [0, 1]]


def begun(broker: BrokerInMemory, *partitions: tuple[int, int]) -> int:
    """The id of a new session; 0 if there was no room for it."""
    session_id: int = send(broker, *partitions, session=(0, 0)).message.session_id
    return session_id


def goes_on(broker: BrokerInMemory, session_id: int, epoch: int) -> bool:
    error = send(broker, session=(session_id, epoch)).message.error_code
    assert error in (ErrorCode.none, ErrorCode.fetch_session_id_not_found)
    return bool(error is ErrorCode.none)


def with_slots(slots: int, **settings: str) -> BrokerInMemory:
    broker = BrokerInMemory(
        SteppedDisk(), ManualClock(), max_incremental_fetch_session_cache_slots=str(slots), **settings
    )
    make_topic(broker)
    return broker


def test_new_sessions_find_no_room_while_others_are_in_use() -> None:
    """KIP-227: a session that is neither stale nor smaller is not evicted; the new one is not cached, which id 0 says."""
    broker = with_slots(1)
    first = begun(broker, (0, 0))
    for _ in range(1000):
        assert begun(broker, (0, 0)) == 0
    assert goes_on(broker, first, 1)


def test_session_that_nobody_has_used_for_two_minutes_makes_way() -> None:
    broker = with_slots(2)
    unused, used = begun(broker, (0, 0)), begun(broker, (0, 0))
    broker.clock.advance(STALE_MS - 1000)
    assert goes_on(broker, used, 1)
    broker.clock.advance(2000)
    new = begun(broker, (0, 0))
    assert new
    assert goes_on(broker, used, 2)
    assert not goes_on(broker, unused, 1)
    assert goes_on(broker, new, 1)


def test_smaller_session_that_is_not_new_makes_way_for_a_larger_one() -> None:
    broker = with_slots(1)
    small = begun(broker, (0, 0))
    assert not begun(broker, (0, 0), (1, 0)), "the other one is new"
    broker.clock.advance(STALE_MS - 1000)
    assert goes_on(broker, small, 1)
    broker.clock.advance(2000)
    assert not begun(broker, (0, 0)), "it is no larger"
    large = begun(broker, (0, 0), (1, 0))
    assert large
    assert not goes_on(broker, small, 2)
    assert goes_on(broker, large, 1)


def test_partition_that_is_not_there_is_answered_and_no_session_keeps_it(broker: BrokerInMemory) -> None:
    reply = send(broker, (0, 0), (77, 0), session=(0, 0)).message
    assert {one.partition_index: one.error_code for one in reply.responses[0].partitions} == {
        0: ErrorCode.none,
        77: ErrorCode.unknown_topic_or_partition,
    }
    assert reply.session_id == 0, "its reader names all of them again"
    assert len(broker.core.fetch_sessions) == 0


def test_session_that_is_asked_for_what_is_not_there_says_so_and_ends(broker: BrokerInMemory) -> None:
    session = begun(broker, (0, 0))
    reply = send(broker, (77, 0), session=(session, 1)).message
    assert reply.error_code is ErrorCode.none
    assert reply.responses[0].partitions[0].error_code is ErrorCode.unknown_topic_or_partition
    assert reply.session_id == 0, "its reader begins another one, and names all"
    assert not goes_on(broker, session, 2)


def test_sessions_have_no_more_partitions_than_there_is_memory_for() -> None:
    broker = with_slots(1000, queued_max_request_bytes=str(2 * 3 * PARTITION_BYTES))
    first = begun(broker, (0, 0), (1, 0))
    assert first
    assert not begun(broker, (0, 0), (1, 0))
    assert begun(broker, (0, 0))
    assert broker.core.fetch_sessions.kept_bytes == 3 * PARTITION_BYTES
    send(broker, session=(first, -1))
    assert broker.core.fetch_sessions.kept_bytes == PARTITION_BYTES
    assert begun(broker, (1, 0))


def test_session_that_grows_beyond_the_memory_ends() -> None:
    broker = with_slots(1000, queued_max_request_bytes=str(2 * 3 * PARTITION_BYTES))
    other, session = begun(broker, (0, 0), (1, 0)), begun(broker, (0, 0))
    assert send(broker, (1, 0), session=(session, 1)).message.error_code is ErrorCode.none
    assert not goes_on(broker, session, 2)
    assert goes_on(broker, other, 1)
    assert broker.core.fetch_sessions.kept_bytes == 2 * PARTITION_BYTES


def test_reader_of_a_topic_that_is_deleted_hears_of_it(broker: BrokerInMemory) -> None:
    reply = send(broker, (0, 0), wait_ms=10_000, min_bytes=1)
    broker.ask("delete_topics", 4, topic_names=[TOPIC], timeout=MINUTE)
    assert reply.came
    assert reply.message.responses[0].partitions[0].error_code is ErrorCode.unknown_topic_or_partition


def durable_broker() -> BrokerInMemory:
    broker = BrokerInMemory(SteppedDisk(), ManualClock(), log_flush_interval_messages="1")
    make_topic(broker)
    return broker


def records_of(reply: Reply) -> bytes:
    assert reply.came
    return reply.message.responses[0].partitions[0].records or b""


def test_record_that_flush_messages_asks_for_is_read_when_it_is_durable() -> None:
    """UnifiedLog.append flushes before Partition.appendRecordsToLeader moves the high watermark: what was read stays."""
    broker = durable_broker()
    batch = build_batch([Record(None, b"kept", timestamp_ms=broker.clock.now_ms())])
    data = {"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}
    promise = send(broker, (0, 0), wait_ms=30_000, min_bytes=1)
    produced = broker.send("produce", 9, acks=-1, timeout=MINUTE, topic_data=[data])
    assert not produced.came
    assert not promise.came
    assert not records_of(send(broker, (0, 0)))
    broker.settle()
    assert produced.came
    assert records_of(promise)
    broker.disk.crash()
    broker.restart()
    assert records_of(send(broker, (0, 0))) == records_of(promise)


@pytest.mark.parametrize("protocol", [TV1, TV2], ids=["TV1", "TV2"])
def test_transaction_is_read_where_flush_messages_asks_for_it_without_another_request(protocol: Protocol) -> None:
    broker = durable_broker()
    producer = ProducerInMemory(broker, protocol)
    producer.write("a", 1)
    ended = producer.send_end(committed=True)
    broker.settle()
    assert ended.came
    partition = broker.core.topics.partition(TOPIC, 0)
    assert partition is not None
    assert partition.log.last_stable_offset == partition.log.log_end_offset == 2


def test_flush_messages_that_asks_for_less_lets_readers_go_on() -> None:
    broker = durable_broker()
    batch = build_batch([Record(None, b"a", timestamp_ms=broker.clock.now_ms())])
    data = {"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}
    broker.send("produce", 9, acks=1, timeout=MINUTE, topic_data=[data])
    promise = send(broker, (0, 0), wait_ms=30_000, min_bytes=1)
    topic = broker.core.topics.named(TOPIC)
    assert topic is not None
    assert not promise.came
    broker.core.topics.configure(topic, {"flush.messages": "1000"})
    assert records_of(promise)
