"""A batch that still takes records, and what becomes of one that is too large."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.producer.accumulator import TIMESTAMP_MAX_MS, ProducerBatch, given_record, size_bytes
from oncelog.client.producer.partition_queue import BatchState, QueuedBatch
from oncelog.client.values import TopicPartition
from oncelog.records import Codec, Record, build_batch, check_batch, decode_batch

GOOD: dict[str, Any] = {"key": b"key", "value": b"value", "headers": (), "timestamp_ms": 5}
NOT_DATA = (
    st.text()
    | st.integers()
    | st.floats()
    | st.booleans()
    | st.lists(st.binary())
    | st.dictionaries(st.binary(), st.binary())
)


@pytest.mark.parametrize("field", ["key", "value"])
@given(data=NOT_DATA)
def test_key_or_value_that_is_not_bytes_is_refused(field: str, data: object) -> None:
    with pytest.raises(
        TypeError, match=f"the {field} of a record is bytes or None, and this one is a {type(data).__name__}"
    ):
        given_record(**{**GOOD, field: data})


@given(data=NOT_DATA)
def test_header_that_is_not_bytes_is_refused_with_its_name(data: object) -> None:
    with pytest.raises(TypeError, match="the header 'source' of a record is bytes or None"):
        given_record(**{**GOOD, "headers": [("good", b"good"), ("source", data)]})


@pytest.mark.parametrize("name", [b"bytes", None, 5])
def test_name_of_a_header_that_is_no_text_is_refused(name: object) -> None:
    with pytest.raises(TypeError, match="the name of a header is a str"):
        given_record(**{**GOOD, "headers": [(name, b"good")]})


def test_name_of_a_header_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        given_record(**{**GOOD, "headers": [("\udcff", b"good")]})


@pytest.mark.parametrize("timestamp_ms", [1.0, 1.5, float("nan"), "5", None])
def test_time_that_is_not_whole_milliseconds_is_refused(timestamp_ms: object) -> None:
    with pytest.raises(TypeError, match="timestamp_ms is an int"):
        given_record(**{**GOOD, "timestamp_ms": timestamp_ms})


@pytest.mark.parametrize("timestamp_ms", [-1, -(2**70), TIMESTAMP_MAX_MS + 1, 2**200])
def test_time_that_no_record_can_have_is_refused(timestamp_ms: int) -> None:
    with pytest.raises(ValueError, match="milliseconds since 1970"):
        given_record(**{**GOOD, "timestamp_ms": timestamp_ms})


def test_what_the_caller_can_still_change_is_copied() -> None:
    value = bytearray(b"before")
    record = given_record(b"key", memoryview(value), [("h", value)], 0)  # type: ignore[arg-type]
    value[:] = b"after!"
    assert record == Record(b"key", b"before", (("h", b"before"),), 0)


DATA = st.none() | st.binary()
HEADER = st.tuples(st.text(st.characters(exclude_categories=["Cs"])), DATA)
TIME = st.integers(0, TIMESTAMP_MAX_MS)


@given(st.lists(st.builds(given_record, DATA, DATA, st.lists(HEADER), TIME), min_size=1))
def test_whatever_is_taken_can_be_written_in_one_batch(records: list[Record]) -> None:
    assert check_batch(build_batch(records)).record_count == len(records)


@pytest.mark.parametrize(
    "headers",
    [
        {"a": b"1", "b": None},
        OrderedDict(a=b"1", b=None),
        (("a", b"1"), ("b", None)),
        [["a", bytearray(b"1")], ("b", None)],
        iter([("a", b"1"), ("b", None)]),
    ],
)
def test_headers_are_a_dict_or_pairs_in_their_order(headers: Any) -> None:
    assert given_record(**{**GOOD, "headers": headers}).headers == (("a", b"1"), ("b", None))


@pytest.mark.parametrize("headers", [None, {}, [], ()])
def test_record_without_headers_has_none(headers: Any) -> None:
    assert given_record(**{**GOOD, "headers": headers}).headers == ()


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ("ab", "are a dict or pairs, and 'ab' is a str"),
        (b"ab", "are a dict or pairs"),
        (5, "are a dict or pairs, and 5 is a int"),
        (["ab"], "a pair of a name and bytes or None, and 'ab' is none"),
        ([("a",)], "a pair of a name"),
        ([("a", b"1", b"2")], "a pair of a name"),
        ({"a": "1"}, "header 'a' of a record is bytes or None, and this one is a str"),
        ({b"a": b"1"}, "the name of a header is a str"),
    ],
)
def test_what_are_no_headers_is_refused(headers: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        given_record(**{**GOOD, "headers": headers})


@pytest.mark.parametrize("count", [2, 3, 8, 9])
def test_batch_is_divided_in_the_middle_until_each_record_is_alone(count: int) -> None:
    """A broker may refuse it for one of them. It is found in as few attempts as can be."""
    batch = ProducerBatch(TopicPartition("orders", 0), 0)
    values = [b"%d" % number for number in range(count)]
    for value in values:
        record = Record(None, value, (), 0)
        batch.append(record, size_bytes(record))
    batch.encoded = QueuedBatch(batch.partition, batch.encode(Codec.NONE), 1_000)
    divide = batch.divide(Codec.NONE)
    assert divide is not None
    halves = [[record.value for record in decode_batch(half.data)] for half in divide()]
    assert halves == [values[: count // 2], values[count // 2 :]]


@pytest.mark.parametrize(("base_offset", "offsets"), [(-1, [-1, -1]), (0, [0, 1]), (7, [7, 8])])
def test_record_has_the_offset_of_its_place_where_the_broker_said_where_the_batch_begins(
    base_offset: int, offsets: list[int]
) -> None:
    batch = ProducerBatch(TopicPartition("orders", 0), 0)
    for timestamp_ms in (3, 4):
        record = Record(None, b"value", (), timestamp_ms)
        batch.append(record, size_bytes(record))
    batch.encoded = QueuedBatch(batch.partition, batch.encode(Codec.NONE), 1_000)
    batch.encoded.base_offset, batch.encoded.state = base_offset, BatchState.WRITTEN
    assert [batch.result(place).offset for place in (0, 1)] == offsets
    assert [batch.result(place).timestamp_ms for place in (0, 1)] == [3, 4]
