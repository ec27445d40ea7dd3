"""A power cut or a kill at any moment of a cleaning leaves a log that a start completes, or one that was not cleaned yet."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from harness.cleaned_logs import clean, compacted, latest_of, records_of, roll, steps, write
from harness.log_on_memory_disk import DIRECTORY, LogOnMemoryDisk
from harness.memory_disk import CuttingDisk, PowerCut
from oncelog.records import ControlType
from oncelog.simulation.memory_disk import SyncMark


class NameCuttingDisk(CuttingDisk):
    """Loses its power when so many names have changed, or files been synced."""

    def changed(self, path: str) -> None:
        # Bytes do not count.
        self.asked(path)

    def _change(self, path: str, change: Callable[[dict[str, Any]], None]) -> None:
        self.count()
        super()._change(path, change)

    def sync_up_to(self, mark: SyncMark) -> None:
        self.count()
        super().sync_up_to(mark)


def written(seed: int) -> LogOnMemoryDisk:
    """A log of several segments: records of a live producer, of a commit, of an abort, and tombstones."""
    on = LogOnMemoryDisk(compacted())
    on.disk = NameCuttingDisk(seed, on.clock.now_ms)
    on.open(was_clean=False)
    for number in range(12):
        key = b"%d" % (number % 3)
        write(on, [(key, bytes(150)), (key, b"x")], producer=(1, 0), sequence=2 * number)
        write(on, [(key, bytes(50))], producer=(2, 0), sequence=number, transactional=True)
        on.mark(ControlType(number % 2), (2, 0))
        write(on, [(key, None)])
    roll(on)
    write(on, [(b"last", b"1")])
    on.sync()
    return on


def state(on: LogOnMemoryDisk) -> tuple[Any, ...]:
    log = on.log
    return (
        latest_of(records_of(log, committed=True)),
        sorted(log.producers.active()),
        log.last_stable_offset,
        log.log_end_offset,
    )


@pytest.mark.parametrize("cut", ["power", "kill"])
@pytest.mark.parametrize("seed", range(3))
def test_every_stop_leaves_a_whole_log(cut: str, seed: int) -> None:
    on = written(seed)
    expected = state(on)
    stop = stops = 0
    while stops == stop:
        on = written(seed)
        assert isinstance(on.disk, NameCuttingDisk)
        on.disk.changes_left = stop
        try:
            clean(on)
        except PowerCut:
            stops += 1
        on.disk.changes_left = None
        if cut == "power":
            on.crash()
        else:
            on.kill()
        assert state(on) == expected, stop
        names = on.disk.list_directory(DIRECTORY)
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))], stop
        for _ in range(2):
            clean(on)
            assert state(on) == expected, stop
        stop += 1
    assert stops > 20


def test_start_that_is_stopped_while_it_completes_is_completed_by_the_next() -> None:
    on = written(0)
    expected = state(on)
    assert isinstance(on.disk, NameCuttingDisk)
    # In the middle of the replacements of the first group.
    for stop in range(300):
        on = written(0)
        on.disk.changes_left = stop
        with suppress(PowerCut):
            clean(on)
        on.disk.changes_left = None
        if not any(name.endswith(".log.swap") for name in on.disk.list_directory(DIRECTORY)):
            continue
        on.disk.crash()
        for again in range(6):
            on.disk.changes_left = again
            try:
                on.open(was_clean=False)
            except PowerCut:
                on.disk.changes_left = None
                on.disk.crash()
        on.disk.changes_left = None
        on.disk.crash()
        on.open(was_clean=False)
        assert state(on) == expected
        return
    pytest.fail("no stop was in the middle of a replacement")


def test_swap_without_its_log_is_removed() -> None:
    on = written(0)
    expected = state(on)
    on.log.close()
    on.disk.replace_file(f"{DIRECTORY}/{0:020d}.index.swap", b"")
    on.disk.replace_file(f"{DIRECTORY}/{0:020d}.log.cleaned", b"half")
    on.open(was_clean=False)
    assert state(on) == expected
    assert not [name for name in on.disk.list_directory(DIRECTORY) if name.endswith((".cleaned", ".swap"))]


def test_cleaning_that_went_on_after_a_drop_changes_nothing() -> None:
    on = written(0)
    expected = state(on)
    under_way = steps(on.log)
    next(under_way)
    on.log.compaction.drop()
    assert list(under_way) == []
    assert state(on) == expected
    assert clean(on)
    assert state(on) == expected


def test_cleaned_log_without_its_checkpoint_is_read_again_as_a_whole() -> None:
    on = written(0)
    expected = state(on)
    assert clean(on)
    on.checkpoint = 0
    for name in on.disk.list_directory(DIRECTORY):
        if name.endswith((".snapshot", ".index", ".timeindex", ".txnindex")):
            on.disk.remove(f"{DIRECTORY}/{name}")
    on.kill()
    assert on.log.recovery.bytes_cut == 0
    assert state(on) == expected
