"""A disk of the harness that is full when a test says so."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.requirements import NOT_RUN
from harness.small_disk import SmallDisk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    made = SmallDisk(tmp_path / "disk")
    if not made.mount():
        pytest.skip(f"{NOT_RUN}this user may not mount a file system")
    yield made
    made.unmount()


def test_full_disk_keeps_what_it_has_and_takes_no_more_until_there_is_room(disk):
    (disk.path / "first").write_bytes(bytes(100_000))
    disk.be_full()
    with pytest.raises(OSError, match="No space") as refused, (disk.path / "second").open("wb") as file:
        file.write(bytes(100_000))
    assert refused.value.errno == errno.ENOSPC
    assert (disk.path / "first").stat().st_size == 100_000
    disk.have_room()
    (disk.path / "second").write_bytes(bytes(100_000))
