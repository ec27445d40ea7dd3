"""Fields that are read of many records at once are those that are read of one record after the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.records.columns import MANY_MAX, Columns, if_high

WIDTH = 16


def bytes_of(column: int, count: int) -> list[int]:
    return list(column.to_bytes(count))


def mask_of(chosen: list[bool]) -> int:
    return int.from_bytes(bytes(0xFF * one for one in chosen))


@given(st.data(), st.lists(st.binary(min_size=WIDTH, max_size=WIDTH), min_size=1, max_size=40))
def test_fields_are_the_ones_of_each_record(data: st.DataObject, heads: list[bytes]) -> None:
    count = len(heads)
    columns = Columns(b"".join(heads), WIDTH, count)
    places = [0] * count
    flags = st.lists(st.booleans(), min_size=count, max_size=count)
    sizes = st.lists(st.integers(0, 3), min_size=count, max_size=count)
    for step in data.draw(st.lists(st.sampled_from(["next", "next_of", "pass_over", "skip"]), max_size=4)):
        if step == "next":
            assert bytes_of(columns.next(), count) == [head[at] for head, at in zip(heads, places, strict=True)]
            places = [at + 1 for at in places]
        elif step == "pass_over":
            columns.pass_over()
            places = [at + 1 for at in places]
        elif step == "next_of":
            some = data.draw(flags)
            found = [head[at] if one else 0 for head, at, one in zip(heads, places, some, strict=True)]
            assert bytes_of(columns.next_of(mask_of(some)), count) == found
            places = [at + one for at, one in zip(places, some, strict=True)]
        else:
            ahead = data.draw(sizes)
            columns.skip(int.from_bytes(bytes(ahead)))
            places = [at + size for at, size in zip(places, ahead, strict=True)]
        assert bytes_of(columns.places, count) == places


def test_high_bytes_are_a_mask() -> None:
    columns = Columns(b"\x80\x7f\xff\0", 1, 4)
    assert if_high(columns.next(), columns.ones) == mask_of([True, False, True, False])


def test_head_that_has_no_more_raises_and_no_byte_of_another_is_read() -> None:
    columns = Columns(b"abcd", 2, 2)
    columns.skip(int.from_bytes(b"\2\1"))
    assert columns.next_of(mask_of([False, True])) == ord("d")
    with pytest.raises(IndexError):
        columns.next()


def test_as_many_records_as_there_may_be_are_read() -> None:
    columns = Columns(bytes(range(256)) * (MANY_MAX // 256), 1, MANY_MAX)
    assert columns.next().to_bytes(MANY_MAX) == bytes(range(256)) * (MANY_MAX // 256)
