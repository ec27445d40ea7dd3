"""A cleaning that is given up leaves no file: what it had written goes after file.delete.delay.ms, as deleted segments do."""

from __future__ import annotations

import pytest

from harness.cleaned_logs import compacted, latest_of, records_of, roll, steps, write
from harness.log_on_memory_disk import DIRECTORY, LogOnMemoryDisk
from oncelog.environment import DiskError
from oncelog.log.names import DELETED


@pytest.mark.parametrize("done", range(1, 12))
def test_cleaning_that_is_given_up_at_any_step_leaves_nothing_half_done(done: int) -> None:
    on = LogOnMemoryDisk(compacted())
    for number in range(12):
        write(on, [(b"%d" % (number % 3), bytes(300))])
    roll(on)
    on.sync()
    expected = latest_of(records_of(on.log, committed=True))
    under_way = steps(on.log)
    for _ in range(done):
        next(under_way, None)
    on.log.compaction.drop()
    names = on.disk.list_directory(DIRECTORY)
    assert [name for name in names if name.endswith((".cleaned", ".swap"))] == []
    assert latest_of(records_of(on.log, committed=True)) == expected
    on.restart()
    assert [name for name in on.disk.list_directory(DIRECTORY) if name.endswith(DELETED)] == []
    assert latest_of(records_of(on.log, committed=True)) == expected


def test_cleaning_whose_segments_cannot_take_their_places_is_given_up_without_another_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The files have other names by then, and the next start goes on from there."""
    on = LogOnMemoryDisk(compacted())
    for number in range(12):
        write(on, [(b"%d" % (number % 3), bytes(300))])
    roll(on)
    on.sync()
    expected = latest_of(records_of(on.log, committed=True))
    rename, failed = on.disk.rename, []

    def fails_once_the_log_is_renamed(source: str, target: str) -> None:
        if not failed and target.endswith(".log"):
            failed.append(target)
            raise DiskError(f"cannot rename {source}", source)
        rename(source, target)

    monkeypatch.setattr(on.disk, "rename", fails_once_the_log_is_renamed)
    with pytest.raises(DiskError, match="cannot rename"):
        for _ in steps(on.log):
            pass
    on.log.compaction.drop()
    on.restart()
    assert [name for name in on.disk.list_directory(DIRECTORY) if name.endswith((".cleaned", ".swap"))] == []
    assert latest_of(records_of(on.log, committed=True)) == expected
