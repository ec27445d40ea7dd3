"""What is let through can be read by everybody: the quick look at many records says what reading each of them says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.batches import can_be_read, passes, resealed, with_body
from oncelog.records import Codec, Record, build_batch, check_batch, decode_batch
from oncelog.records.compression import compress
from oncelog.records.many_lengths import OFFSETS_PERIOD
from oncelog.records.record import InvalidRecordError, encode_records, varint

PLAIN = Record(b"k", b"v", timestamp_ms=0)


def record(
    number: int = 0,
    *,
    attributes: bytes = b"\0",
    timestamp: bytes = b"\0",
    delta: bytes | None = None,
    key: bytes = b"\x02k",
    value: bytes = b"\x02v",
    headers: bytes = b"\0",
    length: int | None = None,
) -> bytes:
    """A record whose parts are the test's to choose."""
    content = attributes + timestamp + (varint(number) if delta is None else delta) + key + value + headers
    return varint(len(content) if length is None else length) + content


MALFORMED = {
    "key longer than the record": record(key=b"\x7ek"),
    "value longer than the record": record(value=b"\x7ev"),
    "value shorter than it says": record(value=b"\x04v"),
    "key of length -2": record(key=b"\x03"),
    "value of length -2": record(value=b"\x03"),
    "more headers than there are": record(headers=b"\x02"),
    "a negative number of headers": record(headers=b"\x01"),
    "a header without a key": record(headers=b"\x02\x01\x01"),
    "a header value of length -3": record(headers=b"\x02\x02h\x05"),
    "a header key beyond the end": record(headers=b"\x02\x7eh\x01"),
    "two billion headers": record(headers=b"\xfe\xff\xff\xff\x0f"),
    "bytes after the headers": record(headers=b"\0\0"),
    "no number of headers": record(headers=b""),
    "a length that does not end": b"\xff" * 12,
    "a negative length": record(length=-5),
    "a length beyond the batch": record(length=100),
    "a length that is too short": record(length=6),
    "a timestamp of eleven bytes": record(timestamp=b"\x80" * 10 + b"\0"),
    "an offset delta of six bytes": record(delta=b"\x80" * 5 + b"\0"),
    "an offset delta of 1": record(delta=b"\x02"),
    "an offset delta of -1": record(delta=b"\x01"),
}


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("place", [0, 1, 40, 90])
@pytest.mark.parametrize("malformed", MALFORMED.values(), ids=MALFORMED)
def test_record_that_cannot_be_read_is_refused_wherever_it_stands(malformed: bytes, place: int, codec: Codec) -> None:
    """LogValidator: every record of a produced batch is read; what is no record is INVALID_RECORD."""
    if malformed == record(place):
        malformed = record(delta=b"\x04")
    before = b"".join(record(number) for number in range(place))
    after = b"".join(record(number) for number in range(place + 1, 91))
    body = before + malformed + after
    with pytest.raises(InvalidRecordError):
        check_batch(resealed(with_body(compress(codec, body) if codec else body, 91), attributes=int(codec)))


def test_record_of_odd_but_allowed_shape_passes() -> None:
    bodies = (
        record(attributes=b"\xff"),
        record(timestamp=b"\xff" * 9 + b"\x01"),
        record(delta=b"\x80\x00"),
        record(key=b"\x01", value=b"\x01"),
        record(key=b"\0", value=b"\0", headers=b"\x04\0\x01\x02h\x02v"),
        record(headers=b"\x02\x02\xff\0"),
        record(key=b"\x82\x00k"),
    )
    for body in bodies:
        assert passes(body, 1)
        assert can_be_read(body, 1)


VALUES = pytest.mark.parametrize("value", [b"", b"v" * 62, b"v" * 63, b"v" * 64, None])


@pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 64, 65, 128, 8191, 8192, 8193, 20_000])
@VALUES
def test_batch_of_many_records_alike_has_as_many_as_it_says(count: int, value: bytes | None) -> None:
    body = encode_records([Record(None, value, timestamp_ms=0)] * count, 0)
    assert passes(body, count)
    assert not passes(body, count - 1)
    assert not passes(body, count + 1)


@VALUES
def test_one_changed_byte_among_many_records_alike_is_seen(value: bytes | None) -> None:
    count = 130
    body = encode_records([Record(None, value, timestamp_ms=0)] * count, 0)
    for place in range(0, len(body), max(1, len(body) // 150)):
        changed = bytearray(body)
        changed[place] ^= 0x81
        assert passes(bytes(changed), count) is can_be_read(bytes(changed), count), place


def test_offset_deltas_are_counted_beyond_every_period() -> None:
    count = 3 * OFFSETS_PERIOD
    records = [record(number) for number in range(count)]
    assert passes(b"".join(records), count)
    for skipped in (63, 64, 5000, OFFSETS_PERIOD - 1, OFFSETS_PERIOD, 2 * OFFSETS_PERIOD + 77):
        wrong = [*records[:skipped], record(skipped + 1), *records[skipped + 1 :]]
        assert not passes(b"".join(wrong), count)
        wrong = [*records[:skipped], *(record(number - OFFSETS_PERIOD) for number in range(skipped, count))]
        assert not passes(b"".join(wrong), count)


SMALL = st.builds(
    Record,
    st.one_of(st.none(), st.binary(max_size=3), st.just(b"k" * 70)),
    st.one_of(st.none(), st.binary(max_size=70)),
    st.lists(st.tuples(st.text(max_size=3), st.one_of(st.none(), st.binary(max_size=3))), max_size=2).map(tuple),
    st.sampled_from([0, 1, 63, 64, 10_000, 2**40, -5]),
)


@given(data=st.data())
def test_check_says_what_reading_each_record_says(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.tuples(SMALL, st.integers(1, 90)), min_size=1, max_size=4))
    records = [one for one, times in kinds for _ in range(times)]
    body = bytearray(encode_records(records, 0))
    assert passes(bytes(body), len(records))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(body) - 1))
        match data.draw(st.sampled_from(("change", "cut", "put in"))):
            case "change":
                body[place] = data.draw(st.integers(0, 255))
            case "cut":
                del body[place]
            case _:
                body.insert(place, data.draw(st.integers(0, 255)))
        if not body:
            return
    assert passes(bytes(body), len(records)) is can_be_read(bytes(body), len(records))


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_compressed_records_are_looked_at_as_well(codec: Codec) -> None:
    batch = build_batch([PLAIN] * 100, codec=codec)
    assert check_batch(batch).record_count == 100
    assert len(decode_batch(batch)) == 100
    body = b"".join(record(number) for number in (0, 1, 3))
    with pytest.raises(InvalidRecordError):
        check_batch(resealed(with_body(compress(codec, body), 3), attributes=int(codec)))
