"""Batches whose records get another codec, and the places of records without a key."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.batches import with_body
from oncelog.records import (
    Codec,
    Effort,
    Form,
    InvalidRecordError,
    Record,
    build_batch,
    check_batch,
    decode_batch,
    prepare,
    read_header,
)
from oncelog.records.record import RecordTooLargeError

MIB = 1024 * 1024

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


def in_form(batch: bytes, **form: Any) -> bytes:
    prepared = prepare(batch, Form(MIB, **form), Effort.ANY)
    assert prepared is not None
    return prepared.batch


@given(RECORDS, st.sampled_from(Codec), st.sampled_from(Codec))
def test_batch_under_another_codec_has_the_same_records_and_the_same_producer(
    records: list[Record], before: Codec, after: Codec
) -> None:
    batch = build_batch(records, producer_id=7, producer_epoch=3, base_sequence=5, transactional=True, codec=before)
    header = read_header(batch)
    other = in_form(batch, codec=after)
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
        other = in_form(batch, codec=codec, level=level)
        assert decode_batch(other) == decode_batch(batch)
        assert check_batch(other).codec is codec


@given(RECORDS, st.sampled_from(Codec))
def test_records_without_key_are_found(records: list[Record], codec: Codec) -> None:
    prepared = prepare(build_batch(records, codec=codec), Form(MIB, needs_keys=True), Effort.SMALL)
    assert prepared is not None
    assert prepared.keyless == tuple(index for index, record in enumerate(records) if record.key is None)


def test_record_whose_fields_run_past_its_end_is_refused() -> None:
    with pytest.raises(InvalidRecordError, match="malformed"):
        prepare(with_body(bytes((0x0C,)) + bytes([0x80]) * 6, 1), Form(MIB, needs_keys=True), Effort.SMALL)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_batch_that_decompresses_to_much_is_more_than_a_small_effort(codec: Codec) -> None:
    batch = build_batch([Record(None, bytes(2 * MIB))], codec=codec)
    assert prepare(batch, Form(MIB), Effort.SMALL) is None
    prepared = prepare(batch, Form(MIB), Effort.LARGE)
    assert prepared is not None
    assert prepared.batch is batch
    larger = build_batch([Record(None, bytes(17 * MIB))], codec=codec)
    assert prepare(larger, Form(MIB), Effort.LARGE) is None
    assert prepare(larger, Form(MIB), Effort.ANY) is not None


def test_batch_of_many_records_and_one_that_is_to_be_compressed_are_more_than_a_small_effort() -> None:
    many = build_batch([Record(None, None)] * (Effort.SMALL.records_max + 1))
    assert prepare(many, Form(MIB), Effort.SMALL) is None
    few = build_batch([Record(None, b"v")])
    assert prepare(few, Form(MIB), Effort.SMALL) is not None
    assert prepare(few, Form(MIB, codec=Codec.ZSTD, level=22), Effort.SMALL) is None


@pytest.mark.parametrize("after", [Codec.NONE, Codec.GZIP])
def test_batch_that_would_be_too_large_under_the_topics_codec_is_refused_before_it_is_made(after: Codec) -> None:
    """Kafka's LogValidator decompresses it and compresses it again, and UnifiedLog then refuses it."""
    block = Random(1).randbytes(100_000)
    batch = build_batch([Record(None, block * 20)], codec=Codec.ZSTD)
    assert len(batch) < MIB
    with pytest.raises(RecordTooLargeError):
        prepare(batch, Form(MIB, codec=after), Effort.ANY)


def test_batch_that_decompresses_to_more_than_any_reader_takes_is_refused() -> None:
    packed = build_batch([Record(None, bytes(129 * MIB))], codec=Codec.ZSTD)
    with pytest.raises(InvalidRecordError, match="decompress to more than"):
        prepare(packed, Form(MIB), Effort.ANY)
