""""""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.records import (
    ControlType,
    CorruptBatchError,
    EndTransactionMarker,
    Record,
    RecordsError,
    batches,
    build_batch,
    control,
    control_batch,
    crc32c,
    decode_batch,
    read_control,
    read_header,
)
from oncelog.records.batch import CRC_FROM, seal
from oncelog.records.control import AbortedFilter
from oncelog.records.record import encode_records

COMMIT = (
    "000000000000000000000042ffffffff020e5f75350030000000000000018bcfe568000000018bcfe568000000000000"
    "0003e80005ffffffff000000012000000008000000010c00000000000300"
)
ABORT = (
    "000000000000000000000042ffffffff02fa61a37d0030000000000000018bcfe568000000018bcfe568000000000000"
    "0003e80005ffffffff000000012000000008000000000c00000000000300"
)


@pytest.mark.parametrize(("control", "expected"), [(ControlType.COMMIT, COMMIT), (ControlType.ABORT, ABORT)])
def test_marker_is_the_known_bytes(control: ControlType, expected: str) -> None:
    """A control batch holds one record, sets bits 4 and 5, and takes 78 bytes."""
    batch = control_batch(control, 1000, 5, 3, 1_700_000_000_000)
    assert batch.hex() == expected
    assert len(batch) == 78


@given(
    st.sampled_from(ControlType), st.integers(0, 2**62), st.integers(0, 2**15 - 1), st.integers(-1, 2**31 - 1),
    st.integers(0, 2**42), st.integers(0, 2**62), st.integers(0, 2**31 - 1),
)  # fmt: skip
def test_marker_is_read_as_it_was_written(
    control: ControlType,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int,
    leader_epoch: int,
) -> None:
    batch = control_batch(
        control, producer_id, producer_epoch, coordinator_epoch, timestamp_ms, base_offset, leader_epoch
    )
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch) == (producer_id, producer_epoch)
    assert (header.base_offset, header.leader_epoch, header.max_timestamp_ms) == (
        base_offset,
        leader_epoch,
        timestamp_ms,
    )
    assert header.is_control
    assert header.is_transactional
    assert header.last_sequence == -1
    assert read_control(batch) == EndTransactionMarker(control, coordinator_epoch)
    assert decode_batch(batch)[0].offset == base_offset


@pytest.mark.parametrize("control_type", [2, 3, 4, 5, 6, 99])
def test_control_record_of_another_kind_ends_nothing(control_type: int) -> None:
    """Unknown types are ignored by clients."""
    key = b"\x00\x00" + control_type.to_bytes(2, "big")
    assert read_control(build_batch([Record(key, b"")])) is None


def test_later_versions_are_read_as_the_known_one() -> None:
    batch = build_batch([Record(b"\x00\x05\x00\x01more", b"\x00\x09\x00\x00\x00\x07more")])
    assert read_control(batch) == EndTransactionMarker(ControlType.COMMIT, 7)


@pytest.mark.parametrize(
    "record",
    [
        Record(None, None),
        Record(b"\x00\x00\x00", b"\x00" * 6),
        Record(b"\xff\xff\x00\x01", b"\x00" * 6),
        Record(b"\x00\x00\x00\x01", None),
        Record(b"\x00\x00\x00\x01", b"\x00" * 5),
        Record(b"\x00\x00\x00\x01", b"\xff\xff\x00\x00\x00\x00"),
    ],
)
def test_malformed_control_record_is_corrupt(record: Record) -> None:
    with pytest.raises(CorruptBatchError):
        read_control(build_batch([record]))


@given(
    st.sampled_from((COMMIT, ABORT)), st.integers(-(2**40), 2**40),
    st.lists(st.tuples(st.integers(8, 90), st.integers(0, 255)), max_size=3), st.booleans(),
)  # fmt: skip
def test_marker_that_is_recognised_by_its_shape_is_read_as_any_other(
    marker: str, delta_ms: int, changes: list[tuple[int, int]], is_checked: bool
) -> None:
    """Also those that a cleaner has seen: their records have a distance from the batch's timestamp (KIP-534)."""
    plain = decode_batch(bytes.fromhex(marker))[0]
    record = Record(plain.key, plain.value, timestamp_ms=plain.timestamp_ms + delta_ms)
    header = read_header(bytes.fromhex(marker))
    batch = bytearray(seal(header, encode_records([record], header.base_timestamp_ms)))
    for place, byte in changes:
        batch[place % len(batch)] = byte
    if is_checked:
        batch[CRC_FROM - 4 : CRC_FROM] = crc32c(bytes(batch[CRC_FROM:])).to_bytes(4, "big")
    with patch.object(control, "_plain_marker", lambda data, position: None):
        expected = outcome(bytes(batch))
    assert outcome(bytes(batch)) == expected


def outcome(batch: bytes) -> EndTransactionMarker | str | None:
    try:
        return read_control(batch)
    except RecordsError as error:
        return str(error)


def data(producer_id: int, base_offset: int, *, transactional: bool = True) -> bytes:
    return build_batch(
        [Record(None, b"%d" % producer_id)],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=transactional,
    )


def marker(control: ControlType, producer_id: int, base_offset: int) -> bytes:
    return control_batch(control, producer_id, 0, 0, 0, base_offset)


def kept(log: list[bytes], aborted: list[tuple[int, int]]) -> list[int]:
    """The offsets of the batches that are not dropped."""
    joined = b"".join(log)
    dropping = AbortedFilter(aborted)
    return [header.base_offset for position, header in batches(joined) if not dropping.drops(joined, position, header)]


def test_data_is_dropped_from_the_first_offset_until_the_abort_marker() -> None:
    """A batch of a producer in the aborted list is dropped until that producer's ABORT marker."""
    log = [data(1, 0), data(1, 1), data(1, 2), marker(ControlType.ABORT, 1, 3), data(1, 4)]
    assert kept(log, [(1, 1)]) == [0, 3, 4]


def test_commit_marker_of_another_transaction_does_not_end_dropping() -> None:
    log = [data(1, 0), marker(ControlType.COMMIT, 2, 1), data(1, 2), marker(ControlType.ABORT, 1, 3), data(1, 4)]
    assert kept(log, [(1, 0)]) == [1, 3, 4]


def test_unsorted_list_is_sorted() -> None:
    log = [data(1, 0), data(2, 1), marker(ControlType.ABORT, 1, 2), marker(ControlType.ABORT, 2, 3), data(2, 4)]
    assert kept(log, [(2, 1), (1, 0)]) == [2, 3, 4]


def test_data_outside_a_transaction_is_kept() -> None:
    log = [data(1, 0, transactional=False), data(-1, 1, transactional=False), data(1, 2)]
    assert kept(log, [(1, 0)]) == [0, 1]


def test_transaction_that_began_before_the_first_batch_is_dropped() -> None:
    assert kept([data(1, 50), marker(ControlType.ABORT, 1, 51), data(1, 52)], [(1, 3)]) == [51, 52]


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["data", "commit", "abort"])), max_size=40))
def test_only_records_of_committed_and_open_transactions_are_kept(steps: list[tuple[int, str]]) -> None:
    log: list[bytes] = []
    started: dict[int, list[int]] = {}
    aborted: list[tuple[int, int]] = []
    lost: set[int] = set()
    for offset, (producer_id, step) in enumerate(steps):
        if step == "data":
            log.append(data(producer_id, offset))
            started.setdefault(producer_id, []).append(offset)
            continue
        log.append(marker(ControlType.COMMIT if step == "commit" else ControlType.ABORT, producer_id, offset))
        offsets = started.pop(producer_id, [])
        if step == "abort" and offsets:
            aborted.append((producer_id, offsets[0]))
            lost.update(offsets)
    assert kept(log, aborted) == [offset for offset in range(len(steps)) if offset not in lost]
    assert all(decode_batch(batch) for batch in log)
