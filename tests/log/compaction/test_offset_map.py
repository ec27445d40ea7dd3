"""The map of last offsets, within the memory it is given."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog.log.compaction.offset_map import ENTRY_BYTES, OffsetMap


@given(st.lists(st.binary(max_size=3), max_size=200))
def test_map_knows_the_last_offset_of_each_key(keys: list[bytes]) -> None:
    found, expected = OffsetMap(1 << 20, 0.9, len(keys)), {}
    for offset, key in enumerate(keys):
        assert not found.is_full
        found.put(key, offset)
        expected[key] = offset
    assert {key: found.get(key) for key in expected} == expected
    assert found.get(b"another") == -1
    assert len(found) == len(expected)


@given(st.integers(2, 200), st.floats(0.1, 1.5))
def test_map_that_is_full_still_finds_every_key(slots: int, load_factor: float) -> None:
    found = OffsetMap(slots * ENTRY_BYTES, load_factor, 10**9)
    count = 0
    while not found.is_full:
        found.put(b"%d" % count, count)
        count += 1
    assert 1 <= count < slots
    assert count <= max(1, slots * load_factor)
    assert [found.get(b"%d" % number) for number in range(count)] == list(range(count))
    assert found.get(b"another") == -1


def test_map_without_memory_holds_one_key() -> None:
    found = OffsetMap(0, 0.9, 100)
    found.put(b"a", 5)
    assert found.is_full
    assert (found.get(b"a"), found.get(b"b")) == (5, -1)
