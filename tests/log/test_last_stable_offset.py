"""KIP-98: the last stable offset, and the list of aborted transactions."""

from __future__ import annotations

import pytest

from harness.log_on_memory_disk import LogOnMemoryDisk
from oncelog.log import AbortedTransaction, Appended
from oncelog.records import ControlType, check_batch


@pytest.fixture
def on() -> LogOnMemoryDisk:
    return LogOnMemoryDisk()


def open_transaction(on: LogOnMemoryDisk, producer_id: int) -> None:
    on.produce(b"a", producer=(producer_id, 0), sequence=0, transactional=True)


def test_open_transaction_holds_it_at_its_first_offset(on: LogOnMemoryDisk) -> None:
    on.produce(b"before")
    open_transaction(on, 1)
    on.produce(b"after")
    assert (on.log.last_stable_offset, on.log.high_watermark) == (1, 3)
    on.mark(ControlType.COMMIT, (1, 0))
    assert on.log.last_stable_offset == 4


def test_oldest_of_several_transactions_holds_it(on: LogOnMemoryDisk) -> None:
    open_transaction(on, 1)
    open_transaction(on, 2)
    open_transaction(on, 3)
    on.mark(ControlType.COMMIT, (2, 0))
    assert on.log.last_stable_offset == 0
    on.mark(ControlType.ABORT, (1, 0))
    assert on.log.last_stable_offset == 2
    assert [one.producer_id for one in on.log.producers.open_transactions()] == [3]


def test_marker_above_the_high_watermark_decides_nothing(on: LogOnMemoryDisk) -> None:
    """The transaction is decided when its marker is replicated, not when it is appended."""
    open_transaction(on, 1)
    result = on.log.append_marker(ControlType.COMMIT, 1, 0, 0, 1, on.clock.now_ms())
    assert isinstance(result, Appended)
    assert (on.log.high_watermark, on.log.last_stable_offset) == (1, 0)
    on.log.advance_high_watermark(2)
    assert on.log.last_stable_offset == 2


def test_high_watermark_below_the_transaction_is_the_limit(on: LogOnMemoryDisk) -> None:
    on.produce(b"a")
    on.open(was_clean=False, high_watermark=0)
    batch = on.batch([b"b"], producer=(1, 0), sequence=0, transactional=True)
    on.log.append(batch, check_batch(batch), verified=True)
    assert on.log.last_stable_offset == 0
    on.log.advance_high_watermark(1)
    assert on.log.last_stable_offset == 1


def test_undecided_transactions_are_undecided_after_a_restart(on: LogOnMemoryDisk) -> None:
    open_transaction(on, 1)
    on.mark(ControlType.ABORT, (1, 0))
    on.log.close()
    on.checkpoint = on.log.durability.recovery_point
    on.open(was_clean=True, high_watermark=1)
    assert (on.log.high_watermark, on.log.last_stable_offset) == (1, 0)
    on.log.advance_high_watermark(2)
    assert on.log.last_stable_offset == 2


def test_it_does_not_move_back_over_a_restart(on: LogOnMemoryDisk) -> None:
    open_transaction(on, 1)
    on.mark(ControlType.COMMIT, (1, 0))
    open_transaction(on, 2)
    before = on.log.last_stable_offset
    assert on.restart().last_stable_offset == before
    assert on.kill().last_stable_offset == before


def test_aborted_transaction_names_what_is_stable_after_it(on: LogOnMemoryDisk) -> None:
    open_transaction(on, 1)
    open_transaction(on, 2)
    on.mark(ControlType.ABORT, (1, 0))
    on.mark(ControlType.ABORT, (2, 0))
    assert on.log.aborted_transactions(0, 4) == (AbortedTransaction(1, 0, 2, 1), AbortedTransaction(2, 1, 3, 4))


def test_aborted_transactions_include_one_that_began_before_the_read(on: LogOnMemoryDisk) -> None:
    open_transaction(on, 1)
    on.produce(b"x")
    on.mark(ControlType.ABORT, (1, 0))
    assert [one.producer_id for one in on.log.aborted_transactions(1, 2)] == [1]
    assert on.log.aborted_transactions(3, 3) == ()


def test_committed_transactions_are_not_listed(on: LogOnMemoryDisk) -> None:
    open_transaction(on, 1)
    on.mark(ControlType.COMMIT, (1, 0))
    assert on.log.aborted_transactions(0, 2) == ()
