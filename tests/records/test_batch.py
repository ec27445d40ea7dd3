"""The checksum against the published check value, and over data in pieces."""

from __future__ import annotations

from collections.abc import Callable

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from harness.batches import resealed, with_body
from oncelog.records import (
    HEADER_BYTES,
    SEQUENCE_MAX,
    Codec,
    ControlType,
    CorruptBatchError,
    InvalidRecordError,
    Record,
    RecordsError,
    TimestampType,
    UnsupportedCompressionError,
    batches,
    build_batch,
    check_batch,
    control_batch,
    crc32c,
    crc_is_valid,
    decode_batch,
    next_sequence,
    read_header,
    sequence_before,
    stamp_producer,
    stamped,
)
from oncelog.wire import ErrorCode, WireError

I64 = st.integers(-(2**63), 2**63 - 1)
BYTES = st.none() | st.binary(max_size=300)
TIMESTAMPS = st.integers(-1, 2**42)
HEADERS = st.lists(st.tuples(st.text(max_size=20), BYTES), max_size=3).map(tuple)
RECORDS = st.lists(
    st.builds(Record, key=BYTES, value=BYTES, headers=HEADERS, timestamp_ms=TIMESTAMPS | I64), min_size=1, max_size=30
)
CODECS = st.sampled_from(Codec)
THREE = [Record(b"a", b"1", timestamp_ms=10), Record(None, None, timestamp_ms=30), Record(b"", b"", timestamp_ms=20)]
DECLARED = {
    None,
    ErrorCode.corrupt_message,
    ErrorCode.invalid_record,
    ErrorCode.unsupported_compression_type,
}


def error_of(read: Callable[[bytes], object], data: bytes) -> ErrorCode | None:
    """The code of the error that `data` meets, None if it meets none. Anything but a RecordsError fails the test."""
    try:
        read(data)
    except RecordsError as error:
        return error.error
    return None


def contents(records: list[Record]) -> list[tuple[object, ...]]:
    return [(record.key, record.value, record.headers, record.timestamp_ms) for record in records]


@given(RECORDS, CODECS, st.integers(0, 2**62))
def test_decoded_batch_holds_the_records_that_were_built(records: list[Record], codec: Codec, base_offset: int) -> None:
    decoded = decode_batch(build_batch(records, codec=codec, base_offset=base_offset))
    assert contents(decoded) == contents(records)
    assert [record.offset for record in decoded] == list(range(base_offset, base_offset + len(records)))


@given(RECORDS, CODECS)
def test_built_batch_passes_the_check_of_a_produced_one(records: list[Record], codec: Codec) -> None:
    header = check_batch(build_batch(records, codec=codec))
    assert header.record_count == len(records)
    assert header.codec is codec
    assert header.max_timestamp_ms == max(record.timestamp_ms for record in records)


@given(RECORDS, CODECS, st.booleans(), st.data())
def test_changed_bytes_raise_only_declared_errors(
    records: list[Record], codec: Codec, sealed: bool, data: st.DataObject
) -> None:
    batch = bytearray(build_batch(records, codec=codec))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    changed = resealed(bytes(batch), batch_length=len(batch) - 12) if sealed else bytes(batch)
    for read in (check_batch, decode_batch, lambda batch: list(batches(batch))):
        assert error_of(read, changed) in DECLARED


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_only_declared_errors(data: bytes) -> None:
    for read in (check_batch, decode_batch, read_header, lambda data: list(batches(data))):
        assert error_of(read, data) in DECLARED


@given(RECORDS.filter(lambda records: all(abs(record.timestamp_ms) < 2**60 for record in records)))
def test_kafka_python_reads_what_was_built(records: list[Record]) -> None:
    batch = build_batch(records, base_offset=5, producer_id=7, producer_epoch=1, base_sequence=3, transactional=True)
    theirs = MemoryRecords(batch).next_batch()
    assert theirs.validate_crc()
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (7, 1, 3)
    assert theirs.is_transactional
    found = [(r.key, r.value, tuple(r.headers), r.timestamp, r.offset) for r in theirs]
    assert found == [(*content, 5 + index) for index, content in enumerate(contents(records))]


@given(RECORDS.filter(lambda records: all(abs(record.timestamp_ms) < 2**60 for record in records)), st.booleans())
def test_batch_of_kafka_python_passes_the_check_and_decodes(records: list[Record], compressed: bool) -> None:
    builder = MemoryRecordsBuilder(magic=2, compression_type=Codec.GZIP if compressed else 0, batch_size=2**20)
    for record in records:
        builder.append(record.timestamp_ms, record.key, record.value, list(record.headers))
    builder.close()
    batch = bytes(builder.buffer())
    assert check_batch(batch).record_count == len(records)
    assert contents(decode_batch(batch)) == contents(records)


def test_batches_stop_at_a_torn_tail() -> None:
    first, second = build_batch(THREE), build_batch(THREE, base_offset=3, codec=Codec.ZSTD)
    data = first + second
    for size_bytes in range(len(data)):
        whole = [position for position, _ in batches(data[:size_bytes])]
        assert whole == ([0] if size_bytes >= len(first) else [])
    assert [position for position, _ in batches(data)] == [0, len(first)]
    assert [record.offset for record in decode_batch(data, len(first))] == [3, 4, 5]


def test_batches_refuse_a_length_no_batch_can_have() -> None:
    with pytest.raises(CorruptBatchError):
        list(batches(resealed(build_batch(THREE), batch_length=48)))


def test_header_that_is_cut_short_is_corrupt() -> None:
    with pytest.raises(CorruptBatchError):
        read_header(build_batch(THREE)[: HEADER_BYTES - 1])


def test_header_names_what_its_fields_mean() -> None:
    header = read_header(
        build_batch(THREE, base_offset=10, producer_id=5, producer_epoch=2, base_sequence=2**31 - 2, codec=Codec.LZ4)
    )
    assert (header.last_offset, header.next_offset) == (12, 13)
    assert header.last_sequence == 0
    assert header.codec is Codec.LZ4
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert (header.is_transactional, header.is_control) == (False, False)
    assert read_header(build_batch(THREE)).last_sequence == -1


def test_crc_covers_everything_after_itself_and_nothing_before() -> None:
    """The leader fills in base offset and leader epoch: both are outside the CRC."""
    batch = build_batch(THREE)
    for position in range(len(batch)):
        changed = bytearray(batch)
        changed[position] ^= 1
        is_outside = position < 8 or 12 <= position < 17
        assert crc_is_valid(changed, 0, read_header(changed)) is is_outside


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"base_offset": 1}, ErrorCode.invalid_record),
        ({"magic": 1}, ErrorCode.invalid_record),
        ({"record_count": 0, "last_offset_delta": -1}, ErrorCode.invalid_record),
        ({"record_count": -1, "last_offset_delta": -2}, ErrorCode.invalid_record),
        ({"record_count": 2}, ErrorCode.invalid_record),
        ({"record_count": 4, "last_offset_delta": 3}, ErrorCode.invalid_record),
        ({"record_count": 2, "last_offset_delta": 1}, ErrorCode.invalid_record),
        ({"attributes": 0x20}, ErrorCode.invalid_record),
        ({"producer_id": 9, "producer_epoch": 0}, ErrorCode.invalid_record),
        ({"attributes": 0x10}, ErrorCode.invalid_record),
        ({"attributes": 1}, ErrorCode.invalid_record),
        ({"attributes": 5}, ErrorCode.unsupported_compression_type),
        ({"batch_length": 48}, ErrorCode.corrupt_message),
        ({"batch_length": 4800}, ErrorCode.invalid_record),
    ],
)
def test_produced_batch_with_a_wrong_field_is_refused(fields: dict[str, int], error: ErrorCode) -> None:
    with pytest.raises(RecordsError) as refusal:
        check_batch(resealed(build_batch(THREE), **fields))
    assert refusal.value.error is error


def test_produced_batch_with_a_wrong_crc_is_corrupt() -> None:
    batch = build_batch(THREE)
    with pytest.raises(CorruptBatchError):
        check_batch(batch[:-1] + bytes([batch[-1] ^ 1]))


@pytest.mark.parametrize("data", [b"", build_batch(THREE)[:-1], build_batch(THREE) * 2])
def test_anything_but_one_whole_batch_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecordError):
        check_batch(data)


@pytest.mark.parametrize(
    ("body", "record_count"),
    [
        (b"\x0c" + b"\x00" * 6 + b"\x00", 1),
        (b"\x0e" + b"\x00" * 6, 1),
        (b"\x0d" + b"\x00" * 6, 1),
        (b"\xff\xff\xff\xff\xff\xff\xff", 1),
        (b"\x80\x80\x80\x80\x80\x80\x80\x80", 1),
        (b"\xfe\xff\xff\xff\x0f" + b"\x00" * 6, 1),
    ],
)
def test_records_that_do_not_tile_the_batch_are_refused(body: bytes, record_count: int) -> None:
    with pytest.raises(InvalidRecordError):
        check_batch(with_body(body, record_count))
    with pytest.raises(CorruptBatchError):
        decode_batch(with_body(body, record_count))


@pytest.mark.parametrize(
    "content",
    [
        b"\x00\x00\x00\x03\x01\x00",  # a key of -2 bytes
        b"\x00\x00\x00\x01\x04\x00",  # a value that goes on after the record
        b"\x00\x00\x00\x01\x01\x01",  # -1 headers
        b"\x00\x00\x00\x01\x01\x04",  # more headers than bytes
        b"\x00\x00\x00\x01\x01\x02\x01\x01",  # a header without a key
        b"\x00\x00\x00\x01\x01\x00\x00",  # a byte after the last header
    ],
)
def test_malformed_record_is_corrupt(content: bytes) -> None:
    with pytest.raises(CorruptBatchError):
        decode_batch(with_body(bytes([2 * len(content)]) + content, 1))


def test_header_key_that_is_not_utf_8_is_read_with_replacements() -> None:
    content = b"\x00\x00\x00\x01\x01\x02\x02\xff\x02v"
    (record,) = decode_batch(with_body(bytes([2 * len(content)]) + content, 1))
    assert record.headers == (("\ufffd", b"v"),)


def test_unknown_codec_is_unsupported_when_read() -> None:
    with pytest.raises(UnsupportedCompressionError):
        decode_batch(resealed(build_batch(THREE), attributes=7))


def test_stamped_batch_differs_in_offset_and_epoch_only() -> None:
    batch = build_batch(THREE, producer_id=3, producer_epoch=0, base_sequence=0)
    written = b"".join(stamped(batch, 100, 7))
    header = read_header(written)
    assert (header.base_offset, header.leader_epoch) == (100, 7)
    assert written[17:] == batch[17:]
    assert crc_is_valid(written, 0, header)


@given(RECORDS, CODECS, TIMESTAMPS)
def test_batch_stamped_with_append_time_gives_that_time_to_every_record(
    records: list[Record], codec: Codec, now_ms: int
) -> None:
    """LogAppendTime: the broker sets the type and the max timestamp, which is then the time of every record."""
    written = b"".join(stamped(build_batch(records, codec=codec), 40, 2, log_append_time_ms=now_ms))
    header = read_header(written)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (header.max_timestamp_ms, header.base_offset, header.leader_epoch) == (now_ms, 40, 2)
    decoded = decode_batch(written)
    assert {record.timestamp_ms for record in decoded} == {now_ms}
    assert [record.value for record in decoded] == [record.value for record in records]


@given(RECORDS, CODECS, st.booleans())
def test_stamped_producer_is_that_of_a_batch_built_with_it(
    records: list[Record], codec: Codec, transactional: bool
) -> None:
    batch = build_batch(records, codec=codec)
    expected = build_batch(
        records, codec=codec, producer_id=77, producer_epoch=4, base_sequence=12, transactional=transactional
    )
    assert stamp_producer(batch, 77, 4, 12, transactional) == expected
    assert stamp_producer(bytearray(expected), -1, -1, -1, transactional=False) == batch


def test_error_closes_the_connection_like_any_malformed_bytes() -> None:
    assert issubclass(RecordsError, WireError)


def test_control_batch_from_a_client_is_refused() -> None:
    with pytest.raises(InvalidRecordError):
        check_batch(control_batch(ControlType.COMMIT, 1, 0, 0, 0))


@pytest.mark.parametrize("blocks_are_linked", [False, True])
def test_lz4_frame_whose_blocks_depend_on_each_other_is_refused(blocks_are_linked: bool) -> None:
    """Apache Kafka refuses it too: the Java client cannot read it ("Dependent block stream is unsupported")."""
    plain = build_batch([Record(None, b"value")])
    compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=blocks_are_linked)
    compressor.compress(plain[HEADER_BYTES:])
    batch = plain[:HEADER_BYTES] + bytes(compressor.finish())
    batch = resealed(batch, batch_length=len(batch) - 12, attributes=Codec.LZ4)
    if blocks_are_linked:
        with pytest.raises(InvalidRecordError):
            check_batch(batch)
    else:
        assert check_batch(batch).record_count == 1


SEQUENCES = st.integers(0, SEQUENCE_MAX)


def test_after_the_largest_sequence_comes_zero() -> None:
    """Sequence numbers wrap to 0 after 2147483647 and are never negative."""
    assert next_sequence(SEQUENCE_MAX) == 0
    assert next_sequence(SEQUENCE_MAX - 1, 5) == 3
    assert sequence_before(0) == SEQUENCE_MAX
    assert next_sequence(-1) == 0


@given(SEQUENCES, SEQUENCES)
def test_going_back_undoes_going_on(sequence: int, count: int) -> None:
    after = next_sequence(sequence, count)
    assert 0 <= after <= SEQUENCE_MAX
    assert sequence_before(after, count) == sequence


def test_checksum_is_the_castagnoli_one():
    """RFC 3720 §B.4 and the catalogue of CRC algorithms: the check value of "123456789"."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA


@given(st.binary(), st.binary())
def test_checksum_goes_on_where_another_ended_whatever_holds_the_bytes(first, second):
    whole = crc32c(first + second)
    assert crc32c(second, crc32c(first)) == whole
    assert crc32c(memoryview(bytearray(second)), crc32c(bytearray(first))) == whole
