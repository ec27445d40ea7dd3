"""A bit of a batch header that the CRC-32C does not cover: no cleaning makes it the only copy, nor drops the batch for it."""

from __future__ import annotations

from itertools import product

import pytest

from harness.cleaned_logs import clean, compacted, roll, write
from harness.log_on_memory_disk import DIRECTORY, LogOnMemoryDisk
from oncelog.log import DamagedLogError
from oncelog.log.names import LOG, offset_name
from oncelog.records.batch import batches

BASE_OFFSET_AT, LEADER_EPOCH_AT = range(8), range(12, 16)
PER_SEGMENT = 4


def written() -> LogOnMemoryDisk:
    """Segments of four batches of one record each, under leader epochs 1, 2 and 5, and the active one."""
    on = LogOnMemoryDisk(compacted(segment_bytes=1_000_000))
    for epoch in (1, 2, 5, 5):
        on.log.lead(epoch)
        for number in range(PER_SEGMENT):
            write(on, [(b"%d" % (number % 3), b"under %d" % epoch)])
        roll(on)
    on.sync()
    return on


def flipped(on: LogOnMemoryDisk, offset: int, byte: int, bit: int) -> None:
    """Change a bit of the header of the batch at an offset; once more, and it is as it was."""
    path = f"{DIRECTORY}/{offset_name(offset // PER_SEGMENT * PER_SEGMENT, LOG)}"
    data = on.disk.read_file(path)
    position = [at for at, _ in batches(data)][offset % PER_SEGMENT] + byte
    on.disk.damage(path, position, bytes((data[position] ^ bit,)))


@pytest.mark.parametrize("is_started_again", [False, True])
@pytest.mark.parametrize("byte", [*BASE_OFFSET_AT, *LEADER_EPOCH_AT])
def test_damaged_header_is_not_copied_and_its_batch_not_lost(byte: int, *, is_started_again: bool) -> None:
    """After a start nothing says which segments were cleaned, and have gaps."""
    whole = written()
    clean(whole)
    for damage in product(range(3 * PER_SEGMENT), [byte], [1 << shift for shift in range(8)]):
        on = written()
        if is_started_again:
            on.restart()
        flipped(on, *damage)
        with pytest.raises(DamagedLogError, match="is damaged at offset"):
            clean(on)
        on.log.compaction.drop()
        flipped(on, *damage)
        clean(on)
        assert on.read_all() == whole.read_all()


def test_segment_that_ends_too_early_is_not_cleaned() -> None:
    on = written()
    path = f"{DIRECTORY}/{offset_name(PER_SEGMENT, LOG)}"
    *_, (last, _) = batches(on.disk.read_file(path))
    on.log.segments[1].size_bytes = last
    with pytest.raises(DamagedLogError, match="it ends there"):
        clean(on)


def test_file_that_was_cut_is_damage_for_whoever_asks_whether_it_is_worth_cleaning() -> None:
    on = LogOnMemoryDisk(compacted(max_compaction_lag_ms=1000))
    write(on, [(b"a", b"1")])
    roll(on)
    on.restart()
    on.disk.replace_file(f"{DIRECTORY}/{offset_name(0, LOG)}", b"short")
    with pytest.raises(DamagedLogError, match="at offset 0, byte 0"):
        on.log.compaction.dirt(on.clock.now_ms())
