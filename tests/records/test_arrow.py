from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.batches import resealed, with_body
from oncelog.records import (
    HEADER_BYTES,
    Codec,
    ControlType,
    CorruptBatchError,
    Record,
    RecordsError,
    TimestampType,
    batches,
    build_batch,
    check_batch,
    control_batch,
    decode_batch,
    read_header,
    stamped,
)
from oncelog.records.arrow import batches_to_arrow, record_schema
from oncelog.records.control import AbortedFilter
from oncelog.records.from_arrow import arrow_to_batches

BYTES = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=20), BYTES), max_size=3).map(tuple)
RECORD = st.builds(Record, key=BYTES, value=BYTES, headers=HEADERS, timestamp_ms=st.integers(-(2**45), 2**45))
RECORDS = st.lists(RECORD, min_size=1, max_size=20)
CODECS = st.sampled_from(Codec)
HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
ALL_OFFSETS = (0, 2**62)


def rows(arrow: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Rows with the timestamp as microseconds: Python's own dates cannot hold all of them."""
    found = []
    for batch in arrow:
        batch.validate(full=True)
        index = batch.schema.get_field_index("timestamp")
        found += batch.set_column(index, "timestamp", batch.column(index).cast(pa.int64())).to_pylist()
    return found


def expected_rows(log: bytes, start: int, end: int, aborted: list[tuple[int, int]] | None) -> list[dict[str, Any]]:
    """The same rows, one record at a time."""
    dropping = AbortedFilter(aborted or ())
    found = []
    for position, header in batches(log):
        if dropping.drops(log, position, header) or header.is_control:
            continue
        found += [
            {
                "key": record.key,
                "value": record.value,
                "topic": "orders",
                "partition": 3,
                "offset": record.offset,
                "timestamp": record.timestamp_ms * 1000,
                "timestampType": int(header.timestamp_type is TimestampType.LOG_APPEND_TIME),
                "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
            }
            for record in decode_batch(log, position)
            if start <= record.offset < end
        ]
    return found


@st.composite
def logs(draw: Callable[..., Any]) -> tuple[list[bytes], list[tuple[int, int]]]:
    """Stored batches of a few producers, some transactions of which were aborted, and the list of those."""
    log: list[bytes] = []
    aborted: list[tuple[int, int]] = []
    first_offsets: dict[int, int] = {}
    offset = draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(0, 8))):
        producer_id = draw(st.integers(-1, 1))
        if producer_id in first_offsets and draw(st.booleans()):
            control = draw(st.sampled_from(ControlType))
            first_offset = first_offsets.pop(producer_id)
            if control is ControlType.ABORT:
                aborted.append((producer_id, first_offset))
            batch = control_batch(control, producer_id, 0, 0, 0, offset)
        else:
            batch = build_batch(
                draw(RECORDS), producer_id=producer_id, transactional=producer_id >= 0, codec=draw(CODECS)
            )
            append_time_ms = draw(st.none() | st.integers(0, 2**42))
            batch = b"".join(stamped(batch, offset, 0, log_append_time_ms=append_time_ms))
            if producer_id >= 0:
                first_offsets.setdefault(producer_id, offset)
        log.append(batch)
        offset = read_header(batch).next_offset + draw(st.sampled_from([0, 0, 5]))
    return log, aborted


@given(logs(), st.booleans(), st.booleans(), st.data())
def test_arrow_rows_are_the_decoded_records(
    log_and_aborted: tuple[list[bytes], list[tuple[int, int]]],
    include_headers: bool,
    read_committed: bool,
    data: st.DataObject,
) -> None:
    log, aborted = log_and_aborted
    joined = b"".join(log)
    split = data.draw(st.integers(0, len(log)))
    chunks = [b"".join(log[:split]), b"".join(log[split:]) + data.draw(st.sampled_from([b"", joined[:40], bytes(5)]))]
    offsets = [read_header(batch).base_offset for batch in log] or [0]
    start = data.draw(st.integers(offsets[0], offsets[-1] + 20))
    end = data.draw(st.integers(start, offsets[-1] + 25))
    arrow = list(
        batches_to_arrow(
            chunks, "orders", 3, start, end, aborted, include_headers=include_headers, read_committed=read_committed
        )
    )
    expected = expected_rows(joined, start, end, aborted if read_committed else None)
    if not include_headers:
        for row in expected:
            del row["headers"]
    assert rows(arrow) == expected
    assert all(batch.schema == record_schema(include_headers) and batch.num_rows for batch in arrow)


@given(RECORDS, CODECS, st.data())
def test_changed_records_are_read_as_by_decode_batch_or_refused(
    records: list[Record], codec: Codec, data: st.DataObject
) -> None:
    """Behind a CRC that holds, any bytes may stand. What is malformed is refused, and nothing is read past an end."""
    batch = bytearray(build_batch(records, codec=codec))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(HEADER_BYTES, len(batch) - 1))] = data.draw(st.integers(0, 255))
    count = len(records) + data.draw(st.sampled_from([0, 0, 0, -1, 1]))
    assert_same_outcome(resealed(bytes(batch), record_count=count))


@given(st.binary(max_size=60), st.integers(-2, 6))
def test_arbitrary_records_are_read_as_by_decode_batch_or_refused(body: bytes, record_count: int) -> None:
    assert_same_outcome(with_body(body, record_count))


def assert_same_outcome(batch: bytes) -> None:
    header = read_header(batch)
    # As a broker may have stored it: the range of offsets is the header's word, and records outside it are still read.
    wide = resealed(batch, last_offset_delta=2**31 - 1) if header.batch_length >= 49 else batch
    try:
        expected = expected_rows(wide, -(2**62), 2**62, None)
    except RecordsError as error:
        with pytest.raises(type(error)):
            list(batches_to_arrow([wide], "orders", 3, -(2**62), 2**62, include_headers=True))
    else:
        found = rows(list(batches_to_arrow([wide], "orders", 3, -(2**62), 2**62, include_headers=True)))
        assert without_extreme_times(found) == without_extreme_times(expected)


def without_extreme_times(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A timestamp that does not fit into 64 bits of microseconds is the nearest one that does."""
    return [
        row | {"timestamp": max(-(2**63) // 1000 * 1000 + 1000, min(2**63 // 1000 * 1000, row["timestamp"]))}
        for row in found
    ]


def test_header_key_that_is_not_utf_8_is_read_with_replacements() -> None:
    content = b"\x00\x00\x00\x01\x01\x02\x02\xff\x02v"
    batch = with_body(bytes([2 * len(content)]) + content, 1)
    (row,) = rows(list(batches_to_arrow([batch], "orders", 3, *ALL_OFFSETS, include_headers=True)))
    assert row["headers"] == [{"key": "\ufffd", "value": b"v"}]


def test_batch_with_a_wrong_crc_is_corrupt() -> None:
    batch = bytearray(build_batch([Record(b"k", b"v")]))
    batch[-2] ^= 1
    with pytest.raises(CorruptBatchError):
        list(batches_to_arrow([batch], "orders", 3, *ALL_OFFSETS))


def test_batch_of_an_older_format_is_corrupt() -> None:
    with pytest.raises(CorruptBatchError):
        list(batches_to_arrow([resealed(build_batch([Record(None, b"v")]), magic=1)], "orders", 3, *ALL_OFFSETS))


def test_empty_batch_that_compaction_left_gives_no_row() -> None:
    assert list(batches_to_arrow([resealed(with_body(b"", 0), last_offset_delta=4)], "orders", 3, *ALL_OFFSETS)) == []


def test_many_bytes_become_several_arrow_batches_in_order() -> None:
    value = bytes(1_000_000)
    log = [build_batch([Record(None, value)] * 3, base_offset=3 * index, codec=Codec.ZSTD) for index in range(10)]
    arrow = list(batches_to_arrow([b"".join(log)], "orders", 3, *ALL_OFFSETS))
    assert len(arrow) > 1
    assert [offset for batch in arrow for offset in batch.column("offset").to_pylist()] == list(range(30))


def decoded(encoded: list[bytes]) -> list[tuple[Any, ...]]:
    found = []
    for batch in encoded:
        header = check_batch(batch)
        records = decode_batch(batch)
        assert [record.offset for record in records] == list(range(header.record_count))
        assert header.max_timestamp_ms == max(record.timestamp_ms for record in records)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
        found += [(record.key, record.value, record.headers, record.timestamp_ms) for record in records]
    return found


def table_of(records: list[Record]) -> pa.Table:
    headers = [[{"key": key, "value": value} for key, value in record.headers] for record in records]
    return pa.table(
        {
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "headers": pa.array(headers, pa.list_(HEADER_TYPE)),
            "timestamp": pa.array([record.timestamp_ms * 1000 for record in records], pa.timestamp("us", tz="UTC")),
        }
    )


@given(st.lists(RECORD, max_size=40), CODECS, st.integers(100, 3000), st.data())
def test_encoded_rows_are_the_decoded_records(
    records: list[Record], codec: Codec, batch_bytes_max: int, data: st.DataObject
) -> None:
    table = table_of(records)
    cut = data.draw(st.integers(0, len(records)))
    table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    first = data.draw(st.integers(0, len(records)))
    encoded = arrow_to_batches(table.slice(first), codec=codec, batch_bytes_max=batch_bytes_max)
    assert decoded(encoded) == [(r.key, r.value, r.headers, r.timestamp_ms) for r in records[first:]]
    if codec is Codec.NONE:
        assert all(len(batch) <= batch_bytes_max or read_header(batch).record_count == 1 for batch in encoded)


@given(st.lists(RECORD, min_size=1, max_size=20))
def test_rows_survive_the_way_to_batches_and_back(records: list[Record]) -> None:
    encoded = arrow_to_batches(table_of(records))
    arrow = list(batches_to_arrow(encoded, "orders", 3, *ALL_OFFSETS, include_headers=True))
    assert decoded(arrow_to_batches(pa.Table.from_batches(arrow))) == [
        (r.key, r.value, r.headers, r.timestamp_ms) for r in records
    ]


@given(st.lists(st.text(max_size=50) | st.none(), min_size=1, max_size=20), st.data())
def test_text_of_any_arrow_type_is_encoded_as_utf_8(texts: list[str | None], data: st.DataObject) -> None:
    strings = pa.array(texts, pa.string())
    kind: Any = data.draw(
        st.sampled_from(
            [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()]
        )
    )
    column = strings.dictionary_encode() if data.draw(st.booleans()) else strings.cast(kind)
    expected = [None if text is None else text.encode() for text in texts]
    found = decoded(arrow_to_batches(pa.table({"value": column, "key": column})))
    assert [(key, value) for key, value, _, _ in found] == [(value, value) for value in expected]


def test_rows_without_a_timestamp_get_the_given_one() -> None:
    column = pa.array([None, 5], pa.timestamp("ms"))
    found = decoded(arrow_to_batches(pa.table({"value": [b"a", b"b"], "timestamp": column}), timestamp_ms=7))
    assert [timestamp_ms for *_, timestamp_ms in found] == [7, 5]
    found = decoded(arrow_to_batches(pa.table({"value": [b"a"], "timestamp": pa.array([9], pa.int64())})))
    assert found == [(None, b"a", (), 9)]
    assert decoded(arrow_to_batches(pa.table({"value": [b"a"]}), timestamp_ms=3)) == [(None, b"a", (), 3)]


def test_record_larger_than_a_batch_gets_one_to_itself() -> None:
    table = pa.table({"value": [b"a", bytes(500), b"b", b"c"]})
    encoded = arrow_to_batches(table, batch_bytes_max=100)
    assert [read_header(batch).record_count for batch in encoded] == [1, 1, 2]
    assert [value for _, value, _, _ in decoded(encoded)] == [b"a", bytes(500), b"b", b"c"]


def test_no_rows_make_no_batches() -> None:
    assert arrow_to_batches(pa.table({"value": pa.array([], pa.binary())})) == []


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"key": [b"k"]}),
        pa.table({"value": [1]}),
        pa.table({"value": [b"v"], "headers": [b"h"]}),
        pa.table({"value": [b"v"], "headers": [[{"name": "a", "value": b"b"}]]}),
        pa.table({"value": [b"v"], "headers": [[{"key": None, "value": b"b"}]]}),
        pa.table({"value": [b"v"], "headers": pa.array([[None]], pa.list_(HEADER_TYPE))}),
        pa.table({"value": [b"v"], "timestamp": ["today"]}),
    ],
)  # fmt: skip
def test_column_of_another_type_is_refused(table: pa.Table) -> None:
    with pytest.raises(ValueError, match=r"value|headers|header|timestamp"):
        arrow_to_batches(table)
