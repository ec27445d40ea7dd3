"""Control batches: the markers that end a transaction in a partition. Each is one record, and takes one offset.

Key: version i16, type i16. Value of COMMIT and ABORT: version i16, coordinator epoch i32.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from typing_extensions import Buffer

from oncelog.records.batch import (
    CODEC_BITS,
    CONTROL_BIT,
    HEADER_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    decode_batch,
    seal,
)
from oncelog.records.errors import CorruptBatchError, RecordsError
from oncelog.records.record import Record, encode_records
from oncelog.records.sequence import NO_SEQUENCE

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_VERSION = 0
_BEFORE_TYPE, _AFTER_TYPE = b"\x20\0\0\0\x08\0\0\0", b"\x0c\0\0"
"""The record of every marker that this and Kafka's coordinators write, but for the type and the coordinator epoch."""
_MARKER_BYTES = 17


class ControlType(IntEnum):
    """How a transaction ended."""

    ABORT = 0
    COMMIT = 1


@dataclass(frozen=True, slots=True)
class EndTransactionMarker:
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
    record = Record(_KEY.pack(_VERSION, control), _VALUE.pack(_VERSION, coordinator_epoch), timestamp_ms=timestamp_ms)
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
        last_offset_delta=0,
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
        record_count=1,
    )
    return seal(header, encode_records([record], timestamp_ms))


def control_problem(data: Buffer, position: int, header: BatchHeader) -> str | None:
    """Why nobody can read the record of the control batch at `position`, whose checksum is right; or None."""
    if _is_plain(bytes(data[position + HEADER_BYTES : position + header.size_bytes]), header):  # type: ignore[index]
        return None
    try:
        read_control(data, position)
    except RecordsError as error:
        return str(error)
    return None


def _is_plain(body: bytes, header: BatchHeader) -> bool:
    """Whether it is such a record: nearly all are, and that is seen faster than read."""
    return (
        len(body) == _MARKER_BYTES
        and header.record_count == 1
        and not header.attributes & CODEC_BITS
        and body.startswith(_BEFORE_TYPE)
        and body.startswith(_AFTER_TYPE, len(_BEFORE_TYPE) + 1)
        and not body[-1]
    )


def read_control(data: Buffer, position: int = 0) -> EndTransactionMarker | None:
    """The marker in the control batch at `position`; None if the batch is empty or of a kind that ends no transaction.

    Raises CorruptBatchError for a batch that cannot be read. Versions above the known one are read as the known one.
    """
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
