"""KIP-98, KIP-360, KIP-890: what a partition lets its producers write."""

from __future__ import annotations

import pytest

from harness.log_on_memory_disk import LogOnMemoryDisk
from harness.manual_clock import START_MS
from oncelog.log import ActiveProducer, Appended, Origin, Refused
from oncelog.records import SEQUENCE_MAX, ControlType, check_batch
from oncelog.wire import ErrorCode

P = (7, 0)


@pytest.fixture
def on() -> LogOnMemoryDisk:
    return LogOnMemoryDisk()


def error_of(result: Appended | Refused) -> ErrorCode:
    return result.error if isinstance(result, Refused) else ErrorCode.none


def try_produce(
    on: LogOnMemoryDisk,
    producer: tuple[int, int],
    sequence: int,
    count: int = 1,
    *,
    transactional: bool = False,
    verified: bool = True,
    must_be_zero: bool = False,
    origin: Origin = Origin.CLIENT,
) -> ErrorCode:
    batch = on.batch([b"v"] * count, producer=producer, sequence=sequence, transactional=transactional)
    return error_of(on.append(batch, verified=verified, first_sequence_must_be_zero=must_be_zero, origin=origin))


def test_second_copy_of_a_batch_answers_the_first_offset(on: LogOnMemoryDisk) -> None:
    """The broker returns success with the offset of the first copy, for any of the last five batches."""
    first = [on.produce(b"a", b"b", producer=P, sequence=2 * slot) for slot in range(5)]
    for slot, appended in enumerate(first):
        again = on.append(on.batch([b"a", b"b"], producer=P, sequence=2 * slot))
        assert again == appended._replace(duplicate=True, log_append_time_ms=START_MS)
    assert on.log.log_end_offset == 10


def test_copy_older_than_five_batches_is_out_of_order(on: LogOnMemoryDisk) -> None:
    for sequence in range(6):
        on.produce(b"a", producer=P, sequence=sequence)
    assert try_produce(on, P, 0) == ErrorCode.out_of_order_sequence_number


def test_copy_split_differently_is_out_of_order(on: LogOnMemoryDisk) -> None:
    on.produce(b"a", b"b", producer=P, sequence=0)
    assert try_produce(on, P, 0) == ErrorCode.out_of_order_sequence_number
    assert try_produce(on, P, 1) == ErrorCode.out_of_order_sequence_number


def test_copy_from_an_older_epoch_is_refused_for_its_epoch(on: LogOnMemoryDisk) -> None:
    on.produce(b"a", producer=(7, 0), sequence=0)
    on.produce(b"a", producer=(7, 1), sequence=0)
    assert try_produce(on, (7, 0), 0) == ErrorCode.invalid_producer_epoch


def test_sequences_without_a_gap_are_taken(on: LogOnMemoryDisk) -> None:
    on.produce(b"a", b"b", b"c", producer=P, sequence=0)
    assert try_produce(on, P, 4) == ErrorCode.out_of_order_sequence_number
    assert try_produce(on, P, 3) == ErrorCode.none


def test_sequence_goes_on_with_zero_after_the_largest(on: LogOnMemoryDisk) -> None:
    on.produce(b"a", b"b", producer=P, sequence=SEQUENCE_MAX - 1)
    on.produce(b"a", b"b", producer=P, sequence=0)
    on.produce(b"a", producer=P, sequence=2)


def test_batch_across_the_largest_sequence_is_recognised(on: LogOnMemoryDisk) -> None:
    first = on.produce(b"a", b"b", b"c", producer=P, sequence=SEQUENCE_MAX - 1)
    again = on.append(on.batch([b"a", b"b", b"c"], producer=P, sequence=SEQUENCE_MAX - 1))
    assert isinstance(again, Appended)
    assert (again.duplicate, again.base_offset) == (True, first.base_offset)
    on.produce(b"d", producer=P, sequence=1)


def test_new_epoch_begins_with_sequence_zero(on: LogOnMemoryDisk) -> None:
    on.produce(b"a", producer=(7, 0), sequence=0)
    assert try_produce(on, (7, 1), 1) == ErrorCode.out_of_order_sequence_number
    assert try_produce(on, (7, 1), 0) == ErrorCode.none


def test_unknown_producer_may_begin_anywhere(on: LogOnMemoryDisk) -> None:
    """KIP-360: what was known of it may have been deleted with its records."""
    assert try_produce(on, P, 41) == ErrorCode.none


def test_producer_with_a_new_epoch_for_its_transaction_begins_with_zero(on: LogOnMemoryDisk) -> None:
    """KIP-890: such a producer that is not known, or only by a marker, cannot have written before."""
    assert try_produce(on, P, 3, transactional=True, must_be_zero=True) == ErrorCode.out_of_order_sequence_number
    on.mark(ControlType.ABORT, P)
    assert try_produce(on, P, 3, transactional=True, must_be_zero=True) == ErrorCode.out_of_order_sequence_number
    assert try_produce(on, P, 0, transactional=True, must_be_zero=True) == ErrorCode.none
    assert try_produce(on, P, 1, transactional=True, must_be_zero=True) == ErrorCode.none


def test_transaction_nobody_verified_is_refused(on: LogOnMemoryDisk) -> None:
    assert try_produce(on, P, 0, transactional=True, verified=False) == ErrorCode.invalid_txn_state
    assert try_produce(on, P, 0, transactional=True, verified=True) == ErrorCode.none
    assert try_produce(on, P, 1, transactional=True, verified=False) == ErrorCode.none
    on.mark(ControlType.COMMIT, P)
    assert try_produce(on, P, 2, transactional=True, verified=False) == ErrorCode.invalid_txn_state
    assert on.log.log_end_offset == 3


def test_record_outside_of_the_open_transaction_is_refused(on: LogOnMemoryDisk) -> None:
    on.produce(b"a", producer=P, sequence=0, transactional=True)
    assert try_produce(on, P, 1) == ErrorCode.invalid_txn_state


def test_coordinator_may_repeat_sequence_zero(on: LogOnMemoryDisk) -> None:
    for _ in range(3):
        assert try_produce(on, P, 0, transactional=True, origin=Origin.COORDINATOR) == ErrorCode.none
    assert on.log.log_end_offset == 3
    on.mark(ControlType.COMMIT, (7, 1), transaction_version=2)
    stale = try_produce(on, P, 0, transactional=True, origin=Origin.COORDINATOR)
    assert stale == ErrorCode.invalid_producer_epoch


@pytest.mark.parametrize(
    ("version", "epoch", "expected"),
    [
        (1, 4, ErrorCode.invalid_producer_epoch),
        (1, 5, ErrorCode.none),
        (1, 6, ErrorCode.none),
        (2, 4, ErrorCode.invalid_producer_epoch),
        (2, 5, ErrorCode.invalid_producer_epoch),
        (2, 6, ErrorCode.none),
    ],
)
def test_marker_epoch_against_an_open_transaction(
    on: LogOnMemoryDisk, version: int, epoch: int, expected: ErrorCode
) -> None:
    """KIP-890: with transaction version 2 a marker carries the epoch after that of the data."""
    on.produce(b"a", producer=(7, 5), sequence=0, transactional=True)
    assert error_of(on.mark(ControlType.ABORT, (7, epoch), transaction_version=version)) == expected


def test_second_marker_of_the_same_epoch_is_written_again(on: LogOnMemoryDisk) -> None:
    on.produce(b"a", producer=(7, 5), sequence=0, transactional=True)
    on.mark(ControlType.ABORT, (7, 6), transaction_version=2)
    assert error_of(on.mark(ControlType.ABORT, (7, 6), transaction_version=2)) == ErrorCode.none
    assert len(on.log.aborted_transactions(0, on.log.log_end_offset)) == 1


def test_marker_at_the_largest_epoch_ends_the_transaction_of_that_epoch(on: LogOnMemoryDisk) -> None:
    on.produce(b"a", producer=(7, 32767), sequence=0, transactional=True)
    assert error_of(on.mark(ControlType.COMMIT, (7, 32767), transaction_version=2)) == ErrorCode.none


def test_late_data_of_a_transaction_that_was_ended_is_refused(on: LogOnMemoryDisk) -> None:
    """KIP-890: the marker's epoch fences what the producer sent before and the network kept."""
    on.produce(b"a", producer=(7, 0), sequence=0, transactional=True)
    on.mark(ControlType.ABORT, (7, 1), transaction_version=2)
    assert try_produce(on, (7, 0), 1, transactional=True) == ErrorCode.invalid_producer_epoch


def test_marker_of_an_older_coordinator_is_fenced(on: LogOnMemoryDisk) -> None:
    """ProducerAppendInfo.checkCoordinatorEpoch: the epoch of a marker is not before that of the last one."""
    on.produce(b"a", producer=P, sequence=0, transactional=True)
    on.mark(ControlType.COMMIT, P, coordinator_epoch=4)
    on.produce(b"b", producer=P, sequence=1, transactional=True)
    assert error_of(on.mark(ControlType.COMMIT, P, coordinator_epoch=3)) == ErrorCode.transaction_coordinator_fenced
    assert len(on.log.producers.open_transactions()) == 1
    assert error_of(on.mark(ControlType.COMMIT, P, coordinator_epoch=4)) == ErrorCode.none
    assert on.log.producers.open_transactions() == ()


def test_marker_without_records_changes_the_epoch_alone(on: LogOnMemoryDisk) -> None:
    on.mark(ControlType.ABORT, (7, 3), coordinator_epoch=2)
    assert on.log.aborted_transactions(0, 10) == ()
    assert on.log.producers.active() == (ActiveProducer(7, 3, -1, START_MS, 2, -1),)
    assert try_produce(on, (7, 2), 0) == ErrorCode.invalid_producer_epoch


def test_markers_of_version_1_keep_the_sequence_going(on: LogOnMemoryDisk) -> None:
    on.produce(b"a", producer=P, sequence=0, transactional=True)
    on.mark(ControlType.COMMIT, P)
    assert try_produce(on, P, 0, transactional=True) == ErrorCode.none  # a copy
    assert try_produce(on, P, 1, transactional=True) == ErrorCode.none
    assert on.log.log_end_offset == 3


def test_refused_batch_leaves_nothing_behind(on: LogOnMemoryDisk) -> None:
    assert try_produce(on, P, 0, transactional=True, verified=False) == ErrorCode.invalid_txn_state
    assert on.log.producers.active() == ()
    assert on.log.size_bytes == 0


def test_producer_without_an_open_transaction_expires(on: LogOnMemoryDisk) -> None:
    on.produce(b"a", producer=(1, 0), sequence=0)
    on.produce(b"a", producer=(2, 0), sequence=0, transactional=True)
    on.clock.advance(on.config.producer_id_expiration_ms - 1)
    assert on.log.expire_producers(on.clock.now_ms()) == 0
    on.clock.advance(1)
    assert on.log.expire_producers(on.clock.now_ms()) == 1
    assert [one.producer_id for one in on.log.producers.active()] == [2]
    assert on.log.producers.open_transactions()[0].first_offset == 1


def test_copy_is_recognised_after_a_restart(on: LogOnMemoryDisk) -> None:
    on.produce(b"a", producer=P, sequence=0)
    on.produce(b"b", b"c", producer=P, sequence=1)
    on.restart()
    again = on.append(on.batch([b"b", b"c"], producer=P, sequence=1))
    assert isinstance(again, Appended)
    assert (again.duplicate, again.base_offset, again.last_offset) == (True, 1, 2)


def test_all_five_copies_are_recognised_after_the_process_was_killed(on: LogOnMemoryDisk) -> None:
    for sequence in range(5):
        on.produce(b"a", producer=P, sequence=sequence)
    on.kill()
    for sequence in range(5):
        again = on.append(on.batch([b"a"], producer=P, sequence=sequence))
        assert isinstance(again, Appended)
        assert (again.duplicate, again.base_offset) == (True, sequence)


def test_transaction_is_unverified_where_nothing_is_said(on: LogOnMemoryDisk) -> None:
    batch = on.batch([b"x"], producer=P, sequence=0, transactional=True)
    assert error_of(on.log.append(batch, check_batch(batch))) == ErrorCode.invalid_txn_state
