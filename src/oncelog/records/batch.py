"""Record batches, format version 2: a header of 61 bytes, and the records as one block that is rarely read.

    offset 0   base offset i64
           8   batch length i32          the bytes after this field
          12   partition leader epoch i32
          16   magic i8                  2
          17   CRC-32C u32               of everything after it
          21   attributes i16            codec 0-2, timestamp type 3, transactional 4, control 5, delete horizon 6
          23   last offset delta i32
          27   base timestamp i64
          35   max timestamp i64
          43   producer id i64
          51   producer epoch i16
          53   base sequence i32
          57   record count i32
          61   records

Offsets and the leader epoch come before the CRC: a broker fills them in without touching the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from fastcrc.crc32 import iscsi as crc32c
from typing_extensions import Buffer

from oncelog.records.compression import DECOMPRESSED_BYTES_MAX, Codec, compress, decompress, lz4_blocks_stand_alone
from oncelog.records.inside import check_records
from oncelog.records.record import (
    CorruptBatchError,
    DecompressedSizeError,
    InvalidRecordError,
    Record,
    UnsupportedCompressionError,
    decode_records,
    encode_records,
)

SEQUENCE_MAX = 2**31 - 1
NO_SEQUENCE = -1


def next_sequence(sequence: int, count: int = 1) -> int:
    """The sequence `count` records after `sequence`. What follows NO_SEQUENCE is 0."""
    return (sequence + count) & SEQUENCE_MAX


def sequence_before(sequence: int, count: int = 1) -> int:
    """The sequence `count` records before `sequence`."""
    return (sequence - count) & SEQUENCE_MAX


MAGIC = 2
HEADER_BYTES = 61
LENGTH_PREFIX_BYTES = 12
BATCH_BYTES_MAX = 1_000_000
"""A broker takes 1 MiB and 12 bytes by default, and a codec may add a little to what it cannot compress."""
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1

_HEADER = Struct(">qiibIhiqqqhii")
CRC_FROM = 21
_OFFSET_PREFIX = Struct(">qii")
_CRC_PREFIX = Struct(">qiibI")
_CHECKED = Struct(">hiqqqhii")
_BATCH_LENGTH = Struct(">i")
_BATCH_LENGTH_POSITION = 8

CODEC_BITS = 0x07
_LOG_APPEND_TIME_BIT = 0x08
_CODECS = tuple(Codec)
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40


class TimestampType(IntEnum):
    """The clock of a batch's timestamps: the producer's or the broker's."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The 61 bytes before the records. Timestamps are milliseconds since 1970."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header and records."""
        return self.batch_length + LENGTH_PREFIX_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset of the next batch. Compaction may have taken records away, but never offsets."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return next_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> Codec:
        """Raises UnsupportedCompressionError for the three numbers that name no codec."""
        try:
            return _CODECS[self.attributes & CODEC_BITS]
        except IndexError:
            raise UnsupportedCompressionError(f"there is no codec {self.attributes & CODEC_BITS}") from None

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & _LOG_APPEND_TIME_BIT else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when on compaction may remove this batch's tombstones, or its marker (KIP-534)."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_BIT else None


def read_header(data: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at `position`, without a look at what it says. Raises CorruptBatchError if bytes are missing."""
    try:
        return BatchHeader._make(_HEADER.unpack_from(data, position))
    except StructError as error:
        raise CorruptBatchError(f"no batch header at byte {position}: {error}") from error


def batches(data: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Every whole batch in `data` as (position, header). A batch that is cut short at the end is left out.

    Raises CorruptBatchError for a length that no batch can have.
    """
    size_bytes = memoryview(data).nbytes
    position = 0
    while position + HEADER_BYTES <= size_bytes:
        header = BatchHeader._make(_HEADER.unpack_from(data, position))
        if header.size_bytes < HEADER_BYTES:
            raise CorruptBatchError(f"the batch at byte {position} says it has {header.size_bytes} bytes")
        end = position + header.size_bytes
        if end > size_bytes:
            return
        yield position, header
        position = end


def crc_is_valid(data: Buffer, position: int, header: BatchHeader) -> bool:
    """True if the batch at `position` is whole and its CRC-32C is that of its bytes."""
    view = memoryview(data)
    end = position + header.size_bytes
    if header.size_bytes < HEADER_BYTES or end > len(view):
        return False
    return crc32c(view[position + CRC_FROM : end]) == header.crc


def check_batch(data: bytes) -> BatchHeader:
    """Check a batch that a client produces, in all that does not depend on the broker's state.

    Raises InvalidRecordError, CorruptBatchError or UnsupportedCompressionError.
    """
    header = check_envelope(data)
    check_body(data, header)
    return header


def check_envelope(data: bytes) -> BatchHeader:
    """The part of `check_batch` that does not look at the records."""
    if len(data) < HEADER_BYTES:
        raise InvalidRecordError(f"{len(data)} bytes hold no batch")
    header = BatchHeader._make(_HEADER.unpack_from(data))
    if header.magic != MAGIC:
        raise InvalidRecordError(f"a batch of format {header.magic}, not {MAGIC}")
    size_bytes = header.size_bytes
    if size_bytes < HEADER_BYTES:
        raise CorruptBatchError(f"a batch says it has {size_bytes} bytes")
    if size_bytes != len(data):
        raise InvalidRecordError(f"one batch of {len(data)} bytes was expected, not {size_bytes}")
    if crc32c(memoryview(data)[CRC_FROM:]) != header.crc:
        raise CorruptBatchError("the CRC-32C of a batch is not that of its bytes")
    _check_produced_header(header)
    return header


def check_body(data: bytes, header: BatchHeader, size_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes | None:
    """The part of `check_batch` that does; return the records if they had to be decompressed.

    A bound below the default is the caller's own: DecompressedSizeError says that it is exceeded.
    """
    if not header.attributes & CODEC_BITS:
        check_records(data, HEADER_BYTES, header.record_count)
        return None
    packed = memoryview(data)[HEADER_BYTES:]
    try:
        body = decompress(header.codec, packed, size_bytes_max)
    except CorruptBatchError as error:
        if isinstance(error, DecompressedSizeError) and size_bytes_max < DECOMPRESSED_BYTES_MAX:
            raise
        # The CRC holds, so sending it again cannot help, and CORRUPT_MESSAGE would make the client try.
        raise InvalidRecordError(str(error)) from error
    if header.codec is Codec.LZ4 and not lz4_blocks_stand_alone(packed):
        raise InvalidRecordError("an lz4 frame whose blocks depend on each other, which the Java client cannot read")
    check_records(body, 0, header.record_count)
    return body


def _check_produced_header(header: BatchHeader) -> None:
    if header.base_offset != 0:
        raise InvalidRecordError(f"a produced batch begins at offset 0, not {header.base_offset}")
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise InvalidRecordError(
            f"{header.record_count} records with a last offset delta of {header.last_offset_delta}"
        )
    if header.is_control:
        raise InvalidRecordError("clients may not write control batches")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise InvalidRecordError(f"producer {header.producer_id} gives no sequence")
    if header.is_transactional and header.producer_id < 0:
        # Nothing could ever commit or abort it.
        raise InvalidRecordError("a transactional batch names no producer")


def stamped(data: bytes, base_offset: int, leader_epoch: int, *, log_append_time_ms: int | None = None) -> list[Buffer]:
    """A produced batch with the offset and epoch the leader gives it, as chunks to write. The records are not copied.

    With `log_append_time_ms` the batch takes the broker's time: type, max timestamp and CRC are written anew.
    """
    view = memoryview(data)
    if log_append_time_ms is None:
        (length,) = _BATCH_LENGTH.unpack_from(data, _BATCH_LENGTH_POSITION)
        return [_OFFSET_PREFIX.pack(base_offset, length, leader_epoch), view[_OFFSET_PREFIX.size :]]
    header = BatchHeader._make(_HEADER.unpack_from(data))
    header = header._replace(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=header.attributes | _LOG_APPEND_TIME_BIT,
        max_timestamp_ms=log_append_time_ms,
    )
    return [_sealed_header(header, view[HEADER_BYTES:]), view[HEADER_BYTES:]]


def stamp_producer(
    batch: Buffer, producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool
) -> bytes:
    """A batch with another producer's id, epoch and sequence in its header, and the CRC that belongs to it."""
    view = memoryview(batch)
    header = read_header(view)
    if transactional:
        attributes = header.attributes | TRANSACTIONAL_BIT
    else:
        attributes = header.attributes & ~TRANSACTIONAL_BIT
    header = header._replace(
        attributes=attributes, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence
    )
    return b"".join((_sealed_header(header, view[HEADER_BYTES:]), view[HEADER_BYTES:]))


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    codec: Codec = Codec.NONE,
) -> bytes:
    """Encode at least one record as a batch. Record n gets offset delta n."""
    assert records, "a batch has at least one record"
    count = len(records)
    base_timestamp_ms = records[0].timestamp_ms
    checked = _CHECKED.pack(
        codec | (TRANSACTIONAL_BIT if transactional else 0),
        count - 1,
        base_timestamp_ms,
        base_timestamp_ms if count == 1 else max([record.timestamp_ms for record in records]),
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    body = encode_records(records, base_timestamp_ms)
    packed = compress(codec, body) if codec else body
    return b"".join((_before_checked(base_offset, leader_epoch, checked, packed), checked, packed))


def seal(header: BatchHeader, body: Buffer, level: int | None = None) -> bytes:
    """A batch from a header and its records, not compressed yet. Fills in the length and the CRC."""
    codec = header.codec
    return seal_packed(header, compress(codec, body, level) if codec else body)


def seal_packed(header: BatchHeader, packed: Buffer) -> bytes:
    """A batch from a header and its records, under the header's codec. Fills in the length and the CRC."""
    return b"".join((_sealed_header(header, packed), packed))


def decode_batch(data: Buffer, position: int = 0) -> list[Record]:
    """Every record of the batch at `position`, with absolute offset and timestamp.

    Raises CorruptBatchError for bytes that are no such batch, UnsupportedCompressionError for an unknown codec.
    """
    header = read_header(data, position)
    if header.magic != MAGIC:
        raise CorruptBatchError(f"a batch of format {header.magic}, not {MAGIC}")
    if not crc_is_valid(data, position, header):
        raise CorruptBatchError(f"the batch at offset {header.base_offset} is not the one that was written")
    body = decompress(header.codec, memoryview(data)[position + HEADER_BYTES : position + header.size_bytes])
    is_log_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    try:
        return decode_records(
            body,
            header.record_count,
            base_offset=header.base_offset,
            base_timestamp_ms=header.base_timestamp_ms,
            log_append_time_ms=header.max_timestamp_ms if is_log_append_time else None,
        )
    except (IndexError, ValueError) as error:
        raise CorruptBatchError(f"the batch at offset {header.base_offset} holds a malformed record") from error


def _sealed_header(header: BatchHeader, body: Buffer) -> bytes:
    """The 61 bytes of a header whose length and CRC are those of `body` as it is written."""
    checked = _CHECKED.pack(*header[5:])
    return _before_checked(header.base_offset, header.leader_epoch, checked, body) + checked


def _before_checked(base_offset: int, leader_epoch: int, checked: bytes, body: Buffer) -> bytes:
    """The header up to the part that the CRC covers. The body is of bytes."""
    batch_length = HEADER_BYTES - LENGTH_PREFIX_BYTES + len(body)  # type: ignore[arg-type]
    return _CRC_PREFIX.pack(base_offset, batch_length, leader_epoch, MAGIC, crc32c(body, crc32c(checked)))
