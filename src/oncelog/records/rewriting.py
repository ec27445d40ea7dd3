"""What a topic's settings ask of a batch's records: another codec, and a key in each."""

from __future__ import annotations

from oncelog.records.batch import CODEC_BITS, HEADER_BYTES, BatchHeader, seal
from oncelog.records.compression import Codec, decompress
from oncelog.records.errors import InvalidRecordError
from oncelog.records.varint import VARINT_BYTES_MAX, VARLONG_BYTES_MAX, read_varint


def recompressed(data: bytes, header: BatchHeader, codec: Codec, level: int | None = None) -> bytes:
    """A checked batch with its records under another codec; everything else stays."""
    body = decompress(header.codec, memoryview(data)[HEADER_BYTES:])
    return seal(header._replace(attributes=header.attributes & ~CODEC_BITS | codec), body, level)


def records_without_key(data: bytes, header: BatchHeader) -> list[int]:
    """The places in a checked batch of the records that have no key. Raises InvalidRecordError for a malformed record."""
    body = decompress(header.codec, memoryview(data)[HEADER_BYTES:])
    found: list[int] = []
    position = 0
    try:
        for index in range(header.record_count):
            length, start = read_varint(body, position)
            position = start + length
            _, key_at = read_varint(body, start + 1, VARLONG_BYTES_MAX)
            _, key_at = read_varint(body, key_at, VARINT_BYTES_MAX)
            key_length, _ = read_varint(body, key_at)
            if key_length < 0:
                found.append(index)
    except (IndexError, ValueError) as error:
        raise InvalidRecordError("a record is malformed") from error
    return found
