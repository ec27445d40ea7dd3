"""What is let through together is right; nothing is that only looks so, column by column."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.batches import can_be_read, passes
from oncelog.records.inside import MANY_MIN, MANY_OF_A_SIZE
from oncelog.records.many_lengths import KEY_BYTES_MAX, MANY_MAX, OFFSETS_PERIOD, Columns, if_high, look_at_many
from oncelog.records.record import varint

COUNT, FIRST, PLACE = 63, 5, 30
"""So many records, of which those from FIRST on are looked at together; the one at PLACE is the test's."""
DELTA = varint(PLACE)


def parts_of(value: bytes | None) -> bytes:
    return b"\1" if value is None else varint(len(value)) + value


def record(number: int, key: bytes | None, value: bytes | None, timestamp: int = 0) -> bytes:
    content = b"\0" + varint(timestamp) + varint(number) + parts_of(key) + parts_of(value) + b"\0"
    return varint(len(content)) + content


def records_of(count: int, *, has_keys: bool, step: int = 10**9, longest: int = 150) -> list[bytes]:
    chosen = random.Random(count)
    return [
        record(
            number,
            chosen.randbytes(chosen.randrange(64)) if has_keys else None,
            chosen.choice((None, chosen.randbytes(chosen.randrange(longest)))),
            number // step,
        )
        for number in range(count)
    ]


def together(records: list[bytes], *, has_keys: bool) -> tuple[int, int]:
    position = sum(map(len, records[:FIRST]))
    return look_at_many(b"".join(records), position, FIRST, len(records) - FIRST, has_keys=has_keys)


@pytest.mark.parametrize("has_keys", [False, True])
def test_records_of_many_lengths_are_looked_at_together(has_keys: bool) -> None:
    records = records_of(COUNT, has_keys=has_keys)
    assert together(records, has_keys=has_keys) == (COUNT - FIRST, len(b"".join(records)))


def in_two_bytes(size: int) -> bytes:
    """A length as no varint has it: the second byte says that it goes on."""
    return bytes((2 * size & 0x7F | 0x80, size >> 6))


LONG = b"\0\0" + DELTA + b"\1" + varint(8191) + b"v" * 8191 + b"\0"
ONLY_TOGETHER = {
    "a key among none, and a value beyond the end": (
        False,
        b"\x18" + b"\0\0" + DELTA + b"\x02\x0a" + b"\x7e" * 6 + b"\0",
    ),
    "a length that goes on": (False, in_two_bytes(len(LONG)) + LONG),
    "a value of length -2 in a record of a negative length": (False, b"\x0f" + b"\0\0" + DELTA + b"\1\x03v\0"),
    "a key of length -2 in a record of a negative length": (True, b"\x11" + b"\0\0" + DELTA + b"\x03k\x02v\0"),
    "a key and a value of length -2": (True, b"\x12" + b"\0\0" + DELTA + b"\x03k\x03vv\0"),
    "a key's length that goes on": (
        True,
        varint(77) + b"\0\0" + DELTA + b"\x80" + b"\x7f" * 64 + varint(70) + b"v" * 6 + b"\0",
    ),
    "a timestamp that goes on": (False, b"\x10" + b"\0\x80" + DELTA + b"\1\x04vv\0"),
    "an offset delta of another": (False, record(PLACE + 1, None, b"vv")),
    "a number of headers, and none": (False, record(PLACE, None, b"v" * 90)[:-1] + b"\x02"),
}


@pytest.mark.parametrize(("has_keys", "wrong"), ONLY_TOGETHER.values(), ids=ONLY_TOGETHER)
def test_record_that_only_seems_right_is_not_let_through(has_keys: bool, wrong: bytes) -> None:
    """LogValidator: every record of a produced batch is read; what is no record is INVALID_RECORD."""
    records = records_of(COUNT, has_keys=has_keys)
    records[PLACE] = wrong
    records[PLACE + 1] = record(PLACE + 1, b"k" if has_keys else None, b"v" * 80)
    for end in (PLACE + 1, COUNT):
        assert together(records[:end], has_keys=has_keys)[0] <= PLACE - FIRST
        assert not passes(b"".join(records[:end]), end)
        assert not can_be_read(b"".join(records[:end]), end)


def test_length_of_one_byte_behind_a_high_one_is_not_taken_for_two() -> None:
    """The value is as long as both bytes together would say, the record only as its own."""
    records = records_of(COUNT, has_keys=False)
    high, length = 0x82, 40
    records[PLACE] = record(PLACE, None, b"v" * 20 + b"\0")[:-1] + bytes((high,))
    held = ((high & 0x7F) + (2 * length << 7)) // 2 - 7
    content = b"\0\0" + varint(PLACE + 1) + b"\1" + varint(held)
    records[PLACE + 1] = varint(length) + content.ljust(length, b"\0")
    assert together(records, has_keys=False)[0] == 0
    assert not passes(b"".join(records), COUNT)


@pytest.mark.parametrize(
    "first", [60, OFFSETS_PERIOD - 100, OFFSETS_PERIOD, 5 * OFFSETS_PERIOD + 7, 0x80 * OFFSETS_PERIOD - 100]
)
@pytest.mark.parametrize("has_keys", [False, True])
def test_timestamps_and_offset_deltas_of_any_length_are_looked_at_together(first: int, has_keys: bool) -> None:
    chosen = random.Random(first)
    ahead = record(first - 1, None, b"v")
    records = [
        record(
            number,
            chosen.choice((None, chosen.randbytes(chosen.randrange(KEY_BYTES_MAX + 1)))) if has_keys else None,
            b"v" * chosen.choice((0, 50, 60, 70, 200, 8000)),
            chosen.choice((1, -1)) * 2 ** chosen.randrange(33),
        )
        for number in range(first, first + 100)
    ]
    body = ahead + b"".join(records)
    assert look_at_many(body, len(ahead), first, 100, has_keys=has_keys) == (100, len(body))
    for wrong in (first - 1, first + 1, first ^ 64, first ^ 0x40000):
        assert look_at_many(body, len(ahead), wrong, 100, has_keys=has_keys) == (0, len(ahead))


LONGER = {
    "a key": record(PLACE, b"k" * (KEY_BYTES_MAX + 1), b"v"),
    "a timestamp": record(PLACE, None, b"v", 2**34),
    "a value": record(PLACE, None, b"v" * 8192),
    "headers": b"\x16" + b"\0\0" + DELTA + b"\1\x02v\x02\x02k\x02v",
}


@pytest.mark.parametrize("has_keys", [False, True])
@pytest.mark.parametrize("longer", LONGER.values(), ids=LONGER)
def test_records_among_which_one_has_something_longer_are_right_one_by_one(longer: bytes, has_keys: bool) -> None:
    records = records_of(COUNT, has_keys=has_keys)
    records[PLACE] = longer
    assert together(records, has_keys=has_keys)[0] == 0
    assert passes(b"".join(records), COUNT)


@pytest.mark.parametrize("has_keys", [False, True])
@pytest.mark.parametrize("step", [1, 9, 10**9])
@pytest.mark.parametrize(
    "count", [MANY_MIN - 1, MANY_MIN + 4, 64, 65, 200, MANY_MAX + 5, MANY_MAX + MANY_OF_A_SIZE, 9000]
)
def test_batch_of_many_lengths_has_as_many_records_as_it_says(count: int, step: int, has_keys: bool) -> None:
    body = b"".join(records_of(count, has_keys=has_keys, step=step))
    assert passes(body, count)
    assert not passes(body, count - 1)
    assert not passes(body, count + 1)


def of_one_size(count: int) -> list[bytes]:
    """Records that are as long as one another, of which every other one has a longer key."""
    records = []
    for number in range(count):
        key = b"k" * (30 if number % 2 else 20)
        records.append(record(number, key, b"v" * (50 - len(key) - len(varint(number)))))
    return records


@pytest.mark.parametrize("count", [MANY_MIN, 64, 200, MANY_OF_A_SIZE + 20, 9000])
def test_batch_of_one_size_and_two_layouts_has_as_many_records_as_it_says(count: int) -> None:
    records = of_one_size(count)
    assert len(set(map(len, records))) == 1
    body = b"".join(records)
    assert passes(body, count)
    assert not passes(body, count - 1)
    assert not passes(body, count + 1)
    with_another_delta = b"".join([*records[:-2], records[-1], records[-2]])
    assert not passes(with_another_delta, count)


@pytest.mark.parametrize("longest", [30, 70, 400])
@pytest.mark.parametrize("has_keys", [False, True])
def test_one_changed_byte_among_records_of_many_lengths_is_seen(has_keys: bool, longest: int) -> None:
    records = records_of(COUNT, has_keys=has_keys, longest=longest)
    chosen = random.Random(longest)
    body = b"".join(records)
    starts = [sum(map(len, records[:number])) for number in range(COUNT)]
    for _ in range(1500):
        place = min(chosen.choice(starts) + chosen.randrange(-2, 8), len(body) - 1)
        changed = bytearray(body)
        changed[place] = chosen.choice((0, 1, 2, 3, 0x7F, 0x80, 0x81, chosen.randrange(256)))
        assert passes(bytes(changed), COUNT) is can_be_read(bytes(changed), COUNT), place


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
