"""The walk over a damaged segment: every batch that is whole is found, and nothing that was not written."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.memory_disk import MemoryDisk
from oncelog.log import LONG_MAX
from oncelog.log.inspection.walk import Damage, SegmentWalk
from oncelog.records import Record, build_batch, read_header

PATH = "/data/t-0/00000000000000000000.log"
NOT_COVERED = {"base offset": (0, 8), "length": (8, 12), "magic": (16, 17)}


def batches_of(counts: list[int]) -> list[bytes]:
    found, offset = [], 0
    for count in counts:
        records = [Record(b"key", b"value %d" % number * count, timestamp_ms=number) for number in range(count)]
        found.append(build_batch(records, base_offset=offset, leader_epoch=0))
        offset += count
    return found


def without_epoch(batch: bytes) -> bytes:
    """The leader epoch is for those who know the whole log."""
    return batch[:12] + batch[16:]


def without_place(batch: bytes) -> bytes:
    return batch[8:12] + batch[16:]


def walk(data: bytes, **options) -> tuple[list[bytes], list[Damage]]:
    disk = MemoryDisk()
    disk.open(PATH, create=True).append([data])
    whole, damages = [], []
    for one in SegmentWalk(disk.open(PATH), 0, **options):
        if isinstance(one, Damage):
            damages.append(one)
        else:
            whole.append(one.data[one.position_in_data : one.position_in_data + one.header.size_bytes])
    return whole, damages


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.data(), st.booleans())
def test_what_is_whole_is_found_and_nothing_else(counts, data, has_gaps):
    batches = batches_of(counts)
    content = bytearray(b"".join(batches))
    start = data.draw(st.integers(0, len(content) - 1))
    end = data.draw(st.integers(start + 1, len(content)))
    content[start:end] = data.draw(st.binary(min_size=end - start, max_size=end - start))
    whole, damages = walk(bytes(content), end_offset=sum(counts), gaps_below=LONG_MAX if has_gaps else 0)
    places, at = {}, 0
    for batch in batches:
        places[at] = batch
        at += len(batch)
    untouched = [batch for at, batch in places.items() if end <= at or at + len(batch) <= start]
    assert [one for one in whole if one in untouched] == untouched
    # Among gaps nothing says where a batch behind damage began but the batch itself, and its CRC does not cover that.
    known = without_place if has_gaps else without_epoch
    written = [known(batch) for batch in batches]
    assert all(known(one) in written for one in whole)
    assert all(damage.healed is None or known(damage.healed) in written for damage in damages)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=6),
    st.data(),
    st.sampled_from(sorted(NOT_COVERED)),
    st.integers(1, 255),
)
def test_fields_before_the_checksum_are_known_from_the_neighbours(counts, data, name, change):
    batches = batches_of(counts)
    number = data.draw(st.integers(0, len(batches) - 1))
    start, end = NOT_COVERED[name]
    damaged = bytearray(batches[number])
    damaged[data.draw(st.integers(start, end - 1))] ^= change
    content = b"".join([*batches[:number], bytes(damaged), *batches[number + 1 :]])
    whole, damages = walk(content, end_offset=sum(counts))
    assert [damage.healed for damage in damages] == [batches[number]]
    assert whole == batches[:number] + batches[number + 1 :]


def test_batch_behind_damage_that_says_another_offset_is_put_right_by_what_follows():
    batches = batches_of([1, 1, 2, 3, 2, 1])
    size_bytes = len(b"".join(batches[:4]))
    for count in (5, 6):
        content = bytearray(b"".join(batches[:count]))
        content[: size_bytes + 8] = bytes(size_bytes + 8)
        whole, (lost, moved) = walk(bytes(content), end_offset=9 if count == 5 else 10)
        assert (lost.first_offset, lost.next_offset, lost.healed) == (0, 7, None)
        assert moved.healed == batches[4]
        assert whole == batches[5:count]


def test_batches_that_are_missing_are_named_by_their_offsets():
    batches = batches_of([2, 3, 4])
    whole, (damage,) = walk(batches[0] + batches[2], end_offset=9)
    assert whole == [batches[0], batches[2]]
    assert (damage.first_offset, damage.next_offset, damage.size_bytes) == (2, 5, 0)
    whole, (damage,) = walk(batches[0], end_offset=9)
    assert (damage.first_offset, damage.next_offset) == (2, 9)
    assert walk(batches[0] + batches[2], end_offset=9, gaps_below=9) == ([batches[0], batches[2]], [])


def test_batches_that_come_again_do_not_belong_there():
    batches = batches_of([2, 3])
    whole, (damage,) = walk(b"".join([*batches, batches[0]]), end_offset=5)
    assert whole == batches
    assert (damage.first_offset, damage.next_offset) == (5, 5)


def test_a_batch_in_the_value_of_a_damaged_one_is_not_taken_for_one_of_the_log():
    inner = build_batch([Record(None, b"forged", timestamp_ms=1)], base_offset=0)
    outer = bytearray(build_batch([Record(None, b"x" * 50 + inner, timestamp_ms=1)], base_offset=0))
    outer[-len(inner) - 20] ^= 1
    following = build_batch([Record(None, b"next", timestamp_ms=1)], base_offset=1)
    whole, (damage,) = walk(bytes(outer) + following, end_offset=2)
    assert [read_header(one).base_offset for one in whole] == [1]
    assert damage.size_bytes == len(outer)


def test_zeros_and_half_a_batch_look_torn():
    (batch,) = batches_of([3])
    for tail in (bytes(5000), batch[:40], batch[:-1], bytes(10)):
        _, (damage,) = walk(batch + tail)
        assert damage.is_torn
        assert damage.position == len(batch)
    changed = bytearray(batch)
    changed[-1] ^= 1
    _, (damage,) = walk(bytes(changed))
    assert not damage.is_torn
