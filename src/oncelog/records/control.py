"""Control batches: the markers that end a transaction in a partition. Each is one record, and takes one offset.

Key: version i16, type i16. Value of COMMIT and ABORT: version i16, coordinator epoch i32.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from enum import IntEnum
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from fastcrc.crc32 import iscsi as crc32c
from typing_extensions import Buffer

from oncelog.records.batch import (
    CODEC_BITS,
    CONTROL_BIT,
    CRC_FROM,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    decode_batch,
)
from oncelog.records.record import CorruptBatchError, RecordsError

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_VERSION = 0
_BEFORE_CHECKED = Struct(">qiibI")
_MARKER = Struct(">hiqqqhii5shh1shi1s")
"""The part of a marker that its checksum covers: its batch's attributes and what follows them, and its record."""
_MARKER_LENGTH = _BEFORE_CHECKED.size + _MARKER.size - LENGTH_PREFIX_BYTES
_RECORD_BEGINS, _VALUE_BEGINS, _NO_HEADERS = b"\x20\0\0\0\x08", b"\x0c", b"\0"
"""The lengths of the record, its key and its value as varints; it has no attributes, and its deltas are 0."""
_SHAPE = Struct(">8xi4xbIh34xi")
"""A batch's length, magic, checksum, attributes and number of records."""
_PLAIN = re.compile(rb".\0[\x80-\xff]{0,8}[\0-\x7f]\0\x08\0\0\0([\0\1])\x0c\0\0(.{4})\0", re.DOTALL)
"""The record of every marker that this and Kafka's coordinators write, with its type and its coordinator epoch.

The second part is the distance from the batch's timestamp, which is not 0 when the cleaner has seen the batch (KIP-534).
"""


class ControlType(IntEnum):
    """How a transaction ended."""

    ABORT = 0
    COMMIT = 1


class EndTransactionMarker(NamedTuple):
    """The record of a control batch that ends a transaction. The producer is in the batch's header."""

    control: ControlType
    coordinator_epoch: int


def control_batch(
    control: ControlType,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The batch that ends a producer's transaction in one partition."""
    checked = _MARKER.pack(
        TRANSACTIONAL_BIT | CONTROL_BIT,
        0,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        NO_SEQUENCE,
        1,
        _RECORD_BEGINS,
        _VERSION,
        control,
        _VALUE_BEGINS,
        _VERSION,
        coordinator_epoch,
        _NO_HEADERS,
    )
    return _BEFORE_CHECKED.pack(base_offset, _MARKER_LENGTH, leader_epoch, MAGIC, crc32c(checked)) + checked


def control_problem(data: Buffer, position: int) -> str | None:
    """Why nobody can read the record of the control batch at `position`, whose checksum is right; or None."""
    if _plain_marker(data, position) is None:
        try:
            read_control(data, position)
        except RecordsError as error:
            return str(error)
    return None


def _plain_marker(data: Buffer, position: int) -> tuple[EndTransactionMarker, int, int] | None:
    """The marker at `position` if it is one as nearly all are, which is seen faster than read; where its batch ends, and the
    checksum that it should have.
    """
    try:
        length, magic, crc, attributes, count = _SHAPE.unpack_from(data, position)
    except StructError:
        return None
    if magic != MAGIC or count != 1 or attributes & CODEC_BITS:
        return None
    begin, end = position + HEADER_BYTES, position + length + LENGTH_PREFIX_BYTES
    found = _PLAIN.fullmatch(data, begin, end)
    if found is None or found.end() != end or data[begin] != 2 * (end - begin - 1):  # type: ignore[index]
        return None
    return _known_marker(*found.groups()), end, crc


@lru_cache
def _known_marker(control: bytes, coordinator_epoch: bytes) -> EndTransactionMarker:
    return EndTransactionMarker(ControlType(control[0]), int.from_bytes(coordinator_epoch, "big", signed=True))


def read_control(data: Buffer, position: int = 0) -> EndTransactionMarker | None:
    """The marker in the control batch at `position`; None if the batch is empty or of a kind that ends no transaction.

    Raises CorruptBatchError for a batch that cannot be read. Versions above the known one are read as the known one.
    """
    plain = _plain_marker(data, position)
    if plain is not None:
        marker, end, crc = plain
        if crc32c(memoryview(data)[position + CRC_FROM : end]) == crc:
            return marker
    records = decode_batch(data, position)
    if not records:
        return None
    key, value = records[0].key, records[0].value
    if key is None or len(key) < _KEY.size:
        raise CorruptBatchError("the key of a control record is cut short")
    key_version, control = _KEY.unpack_from(key)
    if key_version < 0:
        raise CorruptBatchError(f"a control record of version {key_version}")
    if control not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if value is None or len(value) < _VALUE.size:
        raise CorruptBatchError("the value of a control record is cut short")
    value_version, coordinator_epoch = _VALUE.unpack_from(value)
    if value_version < 0:
        raise CorruptBatchError(f"a transaction marker of version {value_version}")
    return EndTransactionMarker(ControlType(control), coordinator_epoch)


class AbortedFilter:
    """Tells the batches of aborted transactions from the others, for the batches of one Fetch answer in their order.

    `aborted` is the answer's list of (producer id, first offset). A producer's data is dropped from the first offset on
    until its ABORT marker (KIP-98, Fetch v4). The list may come unsorted.
    """

    __slots__ = ("_dropped_producers", "_upcoming")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._upcoming = deque(sorted(aborted, key=lambda transaction: transaction[1]))
        self._dropped_producers: set[int] = set()

    def drops(self, data: Buffer, position: int, header: BatchHeader) -> bool:
        """True if the next batch, at `position` in `data`, holds data that was aborted.

        Raises CorruptBatchError for a control batch that cannot be read.
        """
        while self._upcoming and self._upcoming[0][1] <= header.last_offset:
            self._dropped_producers.add(self._upcoming.popleft()[0])
        if not header.is_transactional or header.producer_id not in self._dropped_producers:
            return False
        if not header.is_control:
            return True
        marker = read_control(data, position)
        if marker is not None and marker.control is ControlType.ABORT:
            self._dropped_producers.discard(header.producer_id)
        return False
