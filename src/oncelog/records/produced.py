"""A batch on its way from a producer into the log: checked, and brought into the form that its topic's settings ask for."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from oncelog.records.batch import (
    CODEC_BITS,
    HEADER_BYTES,
    BatchHeader,
    check_body,
    check_envelope,
    read_header,
    seal_packed,
)
from oncelog.records.compression import DECOMPRESSED_BYTES_MAX, Codec, compress
from oncelog.records.record import (
    VARINT_BYTES_MAX,
    VARLONG_BYTES_MAX,
    DecompressedSizeError,
    InvalidRecordError,
    RecordTooLargeError,
    read_varint,
)

KEYLESS_MAX = 100
"""So many places are told: a batch may have millions."""
KEY_COST = 8
"""A record whose key is looked for is so many times the work."""


class Effort(Enum):
    """How much work a batch may be: so many bytes when it is decompressed, and so many records."""

    SMALL = 1024 * 1024, 16 * 1024
    """A few milliseconds at most."""
    LARGE = 16 * 1024 * 1024, 2**31
    ANY = DECOMPRESSED_BYTES_MAX, 2**31

    def __init__(self, size_bytes_max: int, records_max: int) -> None:
        self.size_bytes_max = size_bytes_max
        self.records_max = records_max


class Form(NamedTuple):
    """The form that a topic asks of a batch. Without a codec it keeps the producer's."""

    size_bytes_max: int
    codec: Codec | None = None
    level: int | None = None
    needs_keys: bool = False


class Prepared(NamedTuple):
    """The batch as it may be stored, its header, the codec that its producer chose, and the first places where a key is missing."""

    batch: bytes
    header: BatchHeader
    sent_codec: Codec
    keyless: tuple[int, ...] = ()


def prepare(batch: bytes, form: Form, effort: Effort) -> Prepared | None:
    """Check a batch, and give it the topic's form; None if that is more than `effort`. Raises RecordsError."""
    header = check_envelope(batch)
    sent_codec = header.codec
    other_codec = form.codec if form.codec is not sent_codec else None
    looked_at = header.record_count * (KEY_COST if form.needs_keys else 1)
    # At its highest level a codec takes a second for a megabyte.
    compresses = other_codec is not None and other_codec is not Codec.NONE
    if looked_at > effort.records_max or (
        effort is Effort.SMALL and (compresses or len(batch) > effort.size_bytes_max)
    ):
        return None
    try:
        body = check_body(batch, header, effort.size_bytes_max)
    except DecompressedSizeError:
        return None
    keyless: tuple[int, ...] = ()
    if form.needs_keys:
        keyless = _without_key(
            batch if body is None else body, HEADER_BYTES if body is None else 0, header.record_count
        )
    if keyless or other_codec is None:
        return Prepared(batch, header, sent_codec, keyless)
    records = memoryview(batch)[HEADER_BYTES:] if body is None else body
    batch = _under(other_codec, header, records, form)
    return Prepared(batch, read_header(batch), sent_codec)


def _under(codec: Codec, header: BatchHeader, records: bytes | memoryview, form: Form) -> bytes:
    """The batch with its records under another codec; everything else stays."""
    packed = records if codec is Codec.NONE else compress(codec, records, form.level)
    if HEADER_BYTES + len(packed) > form.size_bytes_max:
        message = (
            f"a batch of {HEADER_BYTES + len(packed)} bytes under {codec.name} is larger than {form.size_bytes_max}"
        )
        raise RecordTooLargeError(message)
    return seal_packed(header._replace(attributes=header.attributes & ~CODEC_BITS | codec), packed)


def _without_key(body: bytes, position: int, record_count: int) -> tuple[int, ...]:
    found: list[int] = []
    try:
        for index in range(record_count):
            length, start = read_varint(body, position)
            position = start + length
            _, key_at = read_varint(body, start + 1, VARLONG_BYTES_MAX)
            _, key_at = read_varint(body, key_at, VARINT_BYTES_MAX)
            key_length, _ = read_varint(body, key_at)
            if key_length < 0:
                found.append(index)
                if len(found) == KEYLESS_MAX:
                    break
    except (IndexError, ValueError) as error:
        raise InvalidRecordError("a record is malformed") from error
    return tuple(found)
