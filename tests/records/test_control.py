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
    build_batch,
    control,
    control_batch,
    decode_batch,
    read_control,
    read_header,
)
from oncelog.records.batch import CRC_FROM, seal
from oncelog.records.checksum import crc32c
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
