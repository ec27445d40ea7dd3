"""A stop while one segment takes the place of several: the old ones are gone afterwards, or still what counts."""

from __future__ import annotations

import pytest

from harness.cleaned_logs import clean, compacted, latest_of, records_of, roll, write
from harness.log_on_memory_disk import DIRECTORY, LogOnMemoryDisk
from harness.memory_disk import PowerCut
from tests.log.compaction.test_crashes import NameCuttingDisk

SEGMENTS = 5


def written(seed: int) -> LogOnMemoryDisk:
    """Five small segments that fit into one, and the active one."""
    on = LogOnMemoryDisk(compacted(segment_bytes=100_000))
    on.disk = NameCuttingDisk(seed, on.clock.now_ms)
    on.open(was_clean=False)
    for number in range(SEGMENTS):
        write(on, [(b"same", b"%d" % number), (b"own %d" % number, bytes(100))])
        roll(on)
    write(on, [(b"last", b"1")])
    on.sync()
    return on


def segments(on: LogOnMemoryDisk) -> list[str]:
    return sorted(name for name in on.disk.list_directory(DIRECTORY) if ".log" in name)


@pytest.mark.parametrize("cut", ["power", "kill"])
@pytest.mark.parametrize("seed", range(2))
def test_stop_leaves_the_old_segments_or_the_new_one_and_never_both(cut: str, seed: int) -> None:
    on = written(seed)
    before, expected = segments(on), latest_of(records_of(on.log, committed=True))
    clean(on)
    on.restart()
    after = segments(on)
    assert (len(before), len(after)) == (SEGMENTS + 1, 2)
    stop, found = 0, set()
    while True:
        on = written(seed)
        assert isinstance(on.disk, NameCuttingDisk)
        on.disk.changes_left = stop
        try:
            clean(on)
        except PowerCut:
            pass
        else:
            break
        finally:
            on.disk.changes_left = None
        if cut == "power":
            on.crash()
        else:
            on.kill()
        assert segments(on) in (before, after), stop
        assert latest_of(records_of(on.log, committed=True)) == expected, stop
        found.add(len(segments(on)))
        stop += 1
    assert found == {SEGMENTS + 1, 2}
