"""A follower's log takes what its leader has, byte for byte, and knows of it what the leader knows."""

from __future__ import annotations

from random import Random

import pytest

from harness.cleaned_logs import clean, compacted, write
from harness.log_on_memory_disk import LogOnMemoryDisk
from harness.replica_on_memory_disk import DIRECTORY, ReplicaOnMemoryDisk
from oncelog.log import NO_LEADER_EPOCH, Followed, LogConfig, Refused, UnknownEpochError
from oncelog.records import ControlType, Record, batches, build_batch
from oncelog.records.batch import read_header
from oncelog.wire import ErrorCode

SMALL = LogConfig(segment_bytes=4000, index_interval_bytes=300, file_delete_delay_ms=0)


def leader(config: LogConfig = SMALL, epoch: int = 0) -> ReplicaOnMemoryDisk:
    on = ReplicaOnMemoryDisk(config)
    on.log.lead(epoch)
    return on


def write_much(on: ReplicaOnMemoryDisk, random: Random, count: int) -> None:
    """Plain batches, two transactional producers, now and then a new leader epoch."""
    log = on.log
    for _ in range(count):
        kind = random.randrange(8)
        on.clock.advance(random.randrange(2000))
        producer = random.randrange(1, 3)
        entry = next((one for one in log.producers.active() if one.producer_id == producer), None)
        sequence = 0 if entry is None else entry.last_sequence + 1
        if kind < 3:
            on.produce(*(random.randbytes(random.randrange(200)) for _ in range(random.randrange(1, 5))))
        elif kind < 6:
            on.produce(random.randbytes(100), producer=(producer, 0), sequence=sequence, transactional=True)
        elif kind == 6:
            # An older coordinator's marker is refused.
            epoch = max(0, log.producers.coordinator_epoch_of(producer)) + random.randrange(2)
            on.mark(ControlType(random.randrange(2)), (producer, 0), epoch)
        else:
            log.lead(log.leader_epoch + random.randrange(3))


def known(on: ReplicaOnMemoryDisk) -> tuple[object, ...]:
    log = on.log
    log.advance_high_watermark(log.log_end_offset)
    return (
        sorted(log.producers.active()),
        log.producers.open_transactions(),
        log.last_stable_offset,
        log.aborted_transactions(0, log.log_end_offset),
        log.max_timestamp(),
        log.newest_epoch,
        [(segment.base_offset, segment.max_timestamp) for segment in log.segments],
    )


@pytest.mark.parametrize("seed", range(12))
def test_follower_has_its_leaders_files_byte_for_byte(seed: int) -> None:
    random = Random(seed)
    first, second = leader(), ReplicaOnMemoryDisk(SMALL)
    for _ in range(6):
        write_much(first, random, 20)
        while second.log.log_end_offset < first.log.log_end_offset:
            data = first.read(second.log.log_end_offset, random.randrange(1, 6000))
            # What is behind the last whole batch is what a leader's answer has when it is cut at max.partition.fetch.bytes.
            torn = first.read(second.log.log_end_offset)[: len(data) + random.randrange(60)]
            assert isinstance(second.log.append_as_follower(torn), Followed)
    # A leader has noted its epoch before a follower can know of it.
    first.produce(b"last")
    second.follow(first)
    assert known(second) == known(first)
    first.log.close()
    second.log.close()
    assert second.files() == first.files()


@pytest.mark.parametrize("at_once", [True, False])
def test_epoch_whose_first_batches_were_cleaned_away_begins_where_the_one_before_it_ends(at_once: bool) -> None:
    """A replica that has more of the epoch before, which nobody else has, is to learn that it must go (KIP-101)."""
    second = ReplicaOnMemoryDisk(SMALL)
    before, after = (
        build_batch([Record(b"key", b"value")] * 5, base_offset=base, leader_epoch=epoch)
        for base, epoch in ((0, 1), (26, 2))
    )
    for data in [before + after] if at_once else [before, after]:
        assert isinstance(second.log.append_as_follower(data), Followed)
    assert second.log.log_end_offset == 31
    assert second.log.epoch_end_offset(1) == (1, 5)


@pytest.mark.parametrize("is_durable", [True, False])
def test_start_without_the_epochs_finds_that_each_begins_where_the_batch_before_it_ends(is_durable: bool) -> None:
    second = ReplicaOnMemoryDisk(SMALL)
    before, after = (
        build_batch([Record(b"key", b"value")] * 5, base_offset=base, leader_epoch=epoch)
        for base, epoch in ((0, 1), (26, 2))
    )
    assert isinstance(second.log.append_as_follower(before + after), Followed)
    if is_durable:
        second.log.advance_high_watermark(31)
        second.log.close()
        second.write()
    second.disk.kill()
    second.disk.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    second.open()
    assert second.log.epoch_end_offset(1) == (1, 5)


def test_batches_go_on_where_the_log_ends_and_nothing_is_written_of_an_answer_that_is_refused() -> None:
    first, second = leader(), ReplicaOnMemoryDisk(SMALL)
    for number in range(4):
        first.produce(b"%d" % number)
    data = first.read()
    assert second.log.append_as_follower(data) == Followed(4, len(data), 4)
    refused = second.log.append_as_follower(data)
    # Kafka's UnexpectedAppendOffsetException.
    assert isinstance(refused, Refused)
    assert refused.error is ErrorCode.unknown_server_error
    assert second.log.log_end_offset == 4
    assert second.read_all() == data


@pytest.mark.parametrize(
    ("position", "error"),
    [(16, ErrorCode.invalid_record), (30, ErrorCode.corrupt_message), (70, ErrorCode.corrupt_message)],
)
def test_bytes_that_are_not_what_the_leader_has_are_refused_whole(position: int, error: ErrorCode) -> None:
    first, second = leader(), ReplicaOnMemoryDisk(SMALL)
    first.produce(b"first")
    begin = len(first.read())
    first.produce(b"second")
    data = bytearray(first.read())
    data[begin + position] ^= 1
    refused = second.log.append_as_follower(bytes(data))
    assert isinstance(refused, Refused)
    assert refused.error is error
    assert second.log.log_end_offset == 0
    assert isinstance(second.log.append_as_follower(first.read()), Followed)


def test_batch_that_is_cut_short_is_left_for_the_next_answer() -> None:
    first, second = leader(), ReplicaOnMemoryDisk(SMALL)
    first.produce(b"first")
    size_bytes = len(first.read())
    first.produce(b"second")
    assert second.log.append_as_follower(first.read()[: size_bytes + 61]) == Followed(1, size_bytes, 1)
    assert second.log.append_as_follower(first.read(1)[:30]) == Followed(0, 0, 1)


def test_batches_stamped_with_the_leaders_time_stay_as_they_are() -> None:
    config = LogConfig(message_timestamp_type="LogAppendTime")
    first, second = leader(config), ReplicaOnMemoryDisk(config)
    first.produce(b"a")
    second.clock.advance(100_000)
    second.follow(first)
    assert second.read_all() == first.read_all()
    assert second.log.max_timestamp() == first.log.max_timestamp()


def test_duplicate_sequences_of_a_leader_are_not_checked_again() -> None:
    """Kafka checks sequences, epochs and transactions for AppendOrigin.CLIENT, and not for REPLICATION."""
    second = ReplicaOnMemoryDisk(SMALL)
    batch = build_batch([Record(None, b"x")], base_offset=0, leader_epoch=0, producer_id=5, base_sequence=9)
    again = build_batch([Record(None, b"x")], base_offset=1, leader_epoch=0, producer_id=5, base_sequence=3)
    assert isinstance(second.log.append_as_follower(batch + again), Followed)
    assert second.log.producers.active()[0].last_sequence == 3


def cleaned_leader() -> LogOnMemoryDisk:
    on = LogOnMemoryDisk(compacted(segment_bytes=2000))
    for number in range(60):
        write(on, [(b"%d" % (number % 4), bytes(100))])
    clean(on)
    assert len([1 for _ in batches(on.read_all())]) < 60
    return on


def test_gaps_of_a_cleaned_leader_are_taken_and_survive_a_power_cut() -> None:
    first = cleaned_leader()
    for seed in range(10):
        second = ReplicaOnMemoryDisk(compacted(segment_bytes=2000), seed)
        half = len(first.log.read(0, 3000, first.log.log_end_offset).data)
        assert isinstance(second.log.append_as_follower(first.read_all()[:half]), Followed)
        end = second.log.log_end_offset
        second.sync()
        second.log.append_as_follower(first.read_all()[half:])
        second.crash()
        assert end <= second.log.log_end_offset <= first.log.log_end_offset
        assert first.read_all().startswith(second.read_all())
        rest = first.read_all()[len(second.read_all()) :]
        assert isinstance(second.log.append_as_follower(rest), Followed)
        assert second.read_all() == first.read_all()
        second.sync()
        second.crash()
        assert second.read_all() == first.read_all()


@pytest.mark.parametrize("is_durable", [False, True])
def test_log_that_is_cut_off_at_a_gap_ends_where_its_last_batch_does_also_for_a_start(is_durable: bool) -> None:
    first = cleaned_leader()
    whole = first.read_all()
    ends = [0, *(header.next_offset for _, header in batches(whole))]
    assert set(range(60)) - set(ends), "there are gaps"
    for offset in range(60):
        second = ReplicaOnMemoryDisk(compacted(segment_bytes=2000), offset)
        second.log.append_as_follower(whole)
        second.sync()
        second.log.compaction.cleaned_offset = 50
        second.write()
        second.truncate_to(offset)
        end = max(one for one in ends if one <= offset)
        assert second.log.log_end_offset == end
        assert second.log.durability.recovery_point == end
        assert second.log.compaction.cleaned_offset == min(50, end)
        left = second.read_all()
        if is_durable:
            second.sync()
            second.crash()
        else:
            second.kill()
        assert (second.log.log_end_offset, second.read_all()) == (end, left)
        assert isinstance(second.log.append_as_follower(whole[len(left) :]), Followed)
        assert second.read_all() == whole


def test_gap_that_is_larger_than_a_segment_begins_another_one() -> None:
    """A position in `.index` has 31 bits for the offset: one further away belongs to a segment of its own."""
    second = ReplicaOnMemoryDisk(SMALL)
    far = 2**33
    near = build_batch([Record(None, b"x")], base_offset=5, leader_epoch=0)
    data = near + build_batch([Record(None, b"y")], base_offset=far, leader_epoch=1)
    assert second.log.append_as_follower(data) == Followed(2, len(data), far + 1)
    assert [segment.base_offset for segment in second.log.segments] == [0, far]
    second.sync()
    second.crash()
    assert second.read_all() == data
    empty = ReplicaOnMemoryDisk(SMALL)
    assert isinstance(empty.log.append_as_follower(data[len(near) :]), Followed)
    empty.sync()
    empty.crash()
    assert empty.read_all() == data[len(near) :]
    assert empty.log.epoch_at(far) == 1


def test_end_of_a_file_that_a_power_cut_took_is_a_loss_and_no_gap() -> None:
    """Inside a file a leader's gaps are right; where one ends the next goes on."""
    for seed in range(20):
        second = ReplicaOnMemoryDisk(LogConfig(segment_bytes=1000), seed)
        first = leader(LogConfig(segment_bytes=1000))
        for _ in range(30):
            first.produce(bytes(150))
        second.follow(first, 2000)
        second.crash()
        assert first.read_all().startswith(second.read_all())


def test_full_disk_refuses_an_answer_and_the_log_goes_on_when_there_is_room() -> None:
    first, second = leader(), ReplicaOnMemoryDisk(SMALL)
    first.produce(bytes(500))
    second.disk.space_bytes = 100
    refused = second.log.append_as_follower(first.read())
    assert isinstance(refused, Refused)
    assert refused.error is ErrorCode.kafka_storage_error
    second.disk.space_bytes = None
    second.follow(first)
    assert second.read_all() == first.read_all()


def test_new_leader_notes_its_epoch_before_it_writes_anything() -> None:
    """KIP-101: the leader adds its epoch and its log end offset when it becomes leader."""
    on = leader(epoch=3)
    on.produce(b"a", b"b")
    on.log.lead(7)
    assert on.log.epoch_end_offset(3) == (3, 2)
    assert on.log.epoch_end_offset(5) == (3, 2)
    assert on.log.epoch_end_offset(7) == (7, 2)
    on.produce(b"c")
    on.sync()
    on.crash()
    assert on.log.epoch_end_offset(5) == (3, 2)
    assert on.log.epoch_end_offset(7) == (7, 3)


def test_epoch_in_which_a_leader_wrote_nothing_is_forgotten_when_it_follows() -> None:
    """Kafka's UnifiedLog.truncateTo cuts the epochs even if there is no record to cut: they may conflict with the leader's."""
    on = leader(epoch=3)
    on.produce(b"a")
    on.log.lead(7)
    on.log.follow()
    on.truncate_to(1)
    assert on.log.newest_epoch == 3
    assert on.log.epoch_end_offset(7) == (-1, -1)
    on.sync()
    assert on.files()["leader-epoch-checkpoint"] == b"0\n1\n3 0\n"
    other = build_batch([Record(None, b"x")], base_offset=1, leader_epoch=5)
    assert isinstance(on.log.append_as_follower(other), Followed)
    assert on.log.epoch_at(1) == 5
    on.sync()
    on.crash()
    assert on.log.epoch_end_offset(3) == (3, 1)


def test_batch_of_an_older_epoch_than_the_one_noted_without_records_takes_its_place() -> None:
    on = leader(epoch=3)
    on.produce(b"a")
    on.log.lead(7)
    on.log.follow()
    on.log.append_as_follower(build_batch([Record(None, b"x")], base_offset=1, leader_epoch=3))
    assert on.log.newest_epoch == 3
    assert on.log.epoch_end_offset(3) == (3, 2)


def test_log_that_follows_answers_with_the_epochs_of_its_batches() -> None:
    first, second = leader(epoch=4), ReplicaOnMemoryDisk(SMALL)
    first.produce(b"a")
    second.follow(first)
    assert second.log.leader_epoch == 4
    assert second.log.epoch_at(1) == 4
    second.log.lead(5)
    second.produce(b"b")
    assert read_header(second.read(1)).leader_epoch == 5
    second.log.follow()
    assert second.log.leader_epoch == 5


def test_transaction_that_was_ended_beyond_the_high_watermark_stays_unstable_through_a_truncation() -> None:
    on = leader(LogConfig(segment_bytes=400))
    on.produce(b"a", producer=(1, 0), sequence=0, transactional=True)
    on.mark(ControlType.COMMIT, (1, 0))
    for _ in range(8):
        on.produce(bytes(100))
    assert len(on.log.segments) > 2
    on.log.advance_high_watermark(1)
    on.log.follow()
    on.truncate_to(9)
    assert on.log.last_stable_offset == 0
    on.log.advance_high_watermark(2)
    assert on.log.last_stable_offset == 2


def test_high_watermark_goes_back_with_a_log_that_is_cut_off_below_it() -> None:
    """After an unclean election only: what was below it is gone on the new leader, too."""
    on = leader()
    for _ in range(5):
        on.produce(b"a")
    on.log.advance_high_watermark(4)
    on.log.follow()
    on.truncate_to(2)
    assert (on.log.high_watermark, on.log.last_stable_offset, on.log.log_end_offset) == (2, 2, 2)


def test_log_that_begins_inside_a_batch_begins_before_it_when_that_is_cut_off() -> None:
    on = leader()
    on.produce(b"a", b"b", b"c", b"d")
    on.log.advance_high_watermark(4)
    on.log.advance_log_start(2)
    on.log.follow()
    on.truncate_to(3)
    assert (on.log.log_start_offset, on.log.high_watermark, on.log.log_end_offset) == (0, 0, 0)
    # The checkpoint says where it began: there is nothing before that.
    on.crash()
    assert (on.log.log_start_offset, on.log.log_end_offset) == (2, 2)


def test_retention_and_cleaning_leave_what_is_not_below_the_high_watermark() -> None:
    on = leader(LogConfig(segment_bytes=400, retention_ms=1000, file_delete_delay_ms=0))
    for _ in range(9):
        on.produce(bytes(100))
    on.clock.advance(10_000)
    assert on.log.retention.expired(on.clock.now_ms()) == 0
    on.log.advance_high_watermark(5)
    assert on.log.segments[on.log.retention.expired(on.clock.now_ms())].base_offset <= 5
    compact = ReplicaOnMemoryDisk(compacted())
    compact.log.lead(0)
    for _ in range(20):
        compact.produce(bytes(100))
    assert compact.log.compaction.dirt(compact.clock.now_ms()) is None


def test_follower_that_begins_again_is_an_empty_log_at_that_offset() -> None:
    """Kafka's truncateFullyAndStartAt."""
    on = leader(LogConfig(segment_bytes=400, file_delete_delay_ms=0))
    for number in range(9):
        on.produce(bytes(100), producer=(1, 0), sequence=number, transactional=True)
    on.sync()
    on.log.follow()
    on.begin_again_at(2000)
    log = on.log
    assert (log.log_start_offset, log.high_watermark, log.last_stable_offset, log.log_end_offset) == (2000,) * 4
    assert log.producers.active() == ()
    assert log.newest_epoch == -1
    assert set(on.files()) <= {"leader-epoch-checkpoint"}
    batch = build_batch([Record(None, b"x")], base_offset=2000, leader_epoch=9)
    assert isinstance(log.append_as_follower(batch), Followed)
    assert log.epoch_end_offset(9) == (9, 2001)
    on.sync()
    on.crash()
    assert on.log.log_start_offset == 2000
    assert on.read_all() == batch


def test_log_is_one_that_follows_when_it_is_opened_without_a_leader_epoch() -> None:
    assert ReplicaOnMemoryDisk().log.leader_epoch == NO_LEADER_EPOCH


@pytest.mark.parametrize("count", [1, 3])
def test_segment_takes_batches_up_to_its_last_byte(count: int) -> None:
    size_bytes = len(build_batch([Record(None, bytes(100))]))
    config = LogConfig(segment_bytes=(1 + count) * size_bytes)
    first, second = leader(config), ReplicaOnMemoryDisk(config)
    for number in range(1 + count):
        first.produce(bytes(100))
        if number in (0, count):
            second.follow(first)
    for on in (first, second):
        assert [segment.size_bytes for segment in on.log.segments] == [config.segment_bytes]


def test_log_without_gaps_knows_that_it_has_none() -> None:
    first, second = leader(), ReplicaOnMemoryDisk(SMALL)
    first.produce(b"one", b"two")
    second.follow(first)
    second.sync()
    assert (second.log.durability.recovery_point, second.log.files.gaps_below) == (2, 0)
    gap = build_batch([Record(None, b"x")], base_offset=5, leader_epoch=0)
    assert isinstance(second.log.append_as_follower(gap), Followed)
    assert second.log.files.gaps_below == 2


def test_batch_may_end_as_far_from_its_segments_beginning_as_an_index_reaches() -> None:
    second = ReplicaOnMemoryDisk(SMALL)
    near, far = (build_batch([Record(None, b"x")], base_offset=base, leader_epoch=0) for base in (0, 2**31 - 1))
    assert isinstance(second.log.append_as_follower(near + far), Followed)
    assert [segment.base_offset for segment in second.log.segments] == [0]
    second.sync()
    second.kill()
    assert second.read_all() == near + far


def test_epoch_that_was_nobodys_keeps_a_log_from_leading() -> None:
    second = ReplicaOnMemoryDisk(SMALL)
    assert isinstance(second.log.append_as_follower(build_batch([Record(None, b"x")], leader_epoch=5)), Followed)
    with pytest.raises(UnknownEpochError, match="the leader epoch is 5, and there were 5"):
        second.log.lead(4)
    second.log.lead(5)


def test_log_that_is_cut_off_to_its_beginning_has_no_epoch_left() -> None:
    """It would part from its leader's in an epoch of which there is nothing to cut off, for ever."""
    first, second = leader(epoch=3), ReplicaOnMemoryDisk(SMALL)
    first.produce(b"x")
    second.follow(first)
    second.truncate_to(0)
    assert (second.log.newest_epoch, second.log.epoch_at(0)) == (-1, -1)


def test_log_that_is_cut_off_has_no_time_of_what_is_gone() -> None:
    config = LogConfig(index_interval_bytes=100)
    first, second = leader(config), ReplicaOnMemoryDisk(config)
    times = []
    for _ in range(20):
        first.clock.advance(10)
        times.append(first.clock.now_ms())
        first.produce(bytes(60))
    second.follow(first)
    second.truncate_to(11)
    (segment,) = second.log.segments
    assert segment.max_timestamp == (times[10], 10)
    assert segment.indexes.times.last[1] <= 10


def test_nothing_of_a_log_that_is_about_to_be_cut_off_goes_into_the_write_ahead_log() -> None:
    first, second = leader(), ReplicaOnMemoryDisk(SMALL)
    for value in (b"one", b"two", b"three"):
        first.produce(value)
        second.follow(first)
        second.sync()
    first.produce(b"four")
    second.follow(first)
    taken = second.log.durability.take_tail(1000)
    assert taken is not None
    assert taken[0].data == first.read(3)
    second.log.files.begin_truncation(2)
    assert second.log.durability.take_tail(1000) is None
