"""Batches whose records get another codec, and the places of records without a key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.records import (
    Codec,
    InvalidRecordError,
    Record,
    build_batch,
    check_batch,
    decode_batch,
    read_header,
    recompressed,
    records_without_key,
)

RECORDS = st.lists(
    st.builds(
        Record,
        key=st.none() | st.binary(max_size=200),
        value=st.none() | st.binary(max_size=200),
        headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2).map(tuple),
        timestamp_ms=st.integers(0, 2**42),
    ),
    min_size=1,
    max_size=20,
)


@given(RECORDS, st.sampled_from(Codec), st.sampled_from(Codec))
def test_batch_under_another_codec_has_the_same_records_and_the_same_producer(
    records: list[Record], before: Codec, after: Codec
) -> None:
    batch = build_batch(records, producer_id=7, producer_epoch=3, base_sequence=5, transactional=True, codec=before)
    header = read_header(batch)
    other = recompressed(batch, header, after)
    found = check_batch(other)
    assert found.codec is after
    assert decode_batch(other) == decode_batch(batch)
    kept = ("record_count", "producer_id", "producer_epoch", "base_sequence", "max_timestamp_ms", "is_transactional")
    assert [getattr(found, name) for name in kept] == [getattr(header, name) for name in kept]


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(Codec.GZIP, (-1, 1, 9)), (Codec.LZ4, (1, 9, 17)), (Codec.ZSTD, (-131_072, -5, 3, 22)), (Codec.SNAPPY, (None,))],
)
def test_every_level_that_may_be_set_is_one_of_the_codec(codec: Codec, levels: tuple[int | None, ...]) -> None:
    records = [Record(None, bytes(range(200)) * 20)]
    batch = build_batch(records)
    for level in levels:
        other = recompressed(batch, read_header(batch), codec, level)
        assert decode_batch(other) == decode_batch(batch)
        assert check_batch(other).codec is codec


@given(RECORDS, st.sampled_from(Codec))
def test_records_without_key_are_found(records: list[Record], codec: Codec) -> None:
    batch = build_batch(records, codec=codec)
    assert records_without_key(batch, read_header(batch)) == [
        index for index, record in enumerate(records) if record.key is None
    ]


def test_record_whose_fields_run_past_its_end_is_refused() -> None:
    batch = bytearray(build_batch([Record(b"k", b"v")]))
    header = read_header(batch)._replace(record_count=2)
    with pytest.raises(InvalidRecordError):
        records_without_key(bytes(batch), header)
