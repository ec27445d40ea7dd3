"""A disk that is looked at: nothing on it can be changed, and files have what a start would put back into them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.memory_disk import MemoryDisk
from oncelog.environment import File
from oncelog.log.inspection.read_only_disk import ReadOnlyDisk

PATH = "/data/file"


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory("/data")
    disk.open(PATH, create=True).append([b"0123456789"])
    return disk


@pytest.mark.parametrize(
    "change",
    [
        lambda disk: disk.open("/data/other", create=True),
        lambda disk: disk.when_full(lambda path, share: True),
        lambda disk: disk.allocate(PATH, 0),
        lambda disk: disk.make_directory("/data/other"),
        lambda disk: disk.rename(PATH, "/data/other"),
        lambda disk: disk.remove(PATH),
        lambda disk: disk.replace_file(PATH, b""),
        lambda disk: disk.sync([], lambda error: None),
        lambda disk: disk.sync_all([]),
        lambda disk: disk.in_background(lambda: None, lambda error: None),
        lambda disk: disk.finish_background(),
    ],
)
def test_change_of_the_disk_is_a_bug(disk: MemoryDisk, change: Callable[[ReadOnlyDisk], object]) -> None:
    with pytest.raises(AssertionError):
        change(ReadOnlyDisk(disk))
    assert disk.paths() == [PATH]
    assert disk.read_file(PATH) == b"0123456789"


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.append([b"x"]),
        lambda file: file.write(0, b"x"),
        lambda file: file.truncate(0),
        lambda file: file.write_back(0, 1),
        lambda file: file.sync(),
    ],
)
def test_change_of_a_patched_file_is_a_bug(disk: MemoryDisk, change: Callable[[File], object]) -> None:
    file = ReadOnlyDisk(disk, {PATH: [(0, b"x")]}).open(PATH)
    with pytest.raises(AssertionError):
        change(file)
    assert disk.read_file(PATH) == b"0123456789"


@pytest.mark.parametrize(
    ("patches", "content"),
    [
        ([], b"0123456789"),
        ([(0, b"ab")], b"ab23456789"),
        ([(8, b"ab")], b"01234567ab"),
        ([(9, b"abc")], b"012345678abc"),
        ([(12, b"a")], b"0123456789\0\0a"),
        ([(2, b"abcd"), (4, b"XY")], b"01abXY6789"),
        ([(4, b"XY"), (2, b"abcd")], b"01abcd6789"),
    ],
)
def test_patches_are_put_in_their_place_one_after_the_other(
    disk: MemoryDisk, patches: list[tuple[int, bytes]], content: bytes
) -> None:
    reading = ReadOnlyDisk(disk).with_patches({PATH: patches})
    assert reading.read_file(PATH) == content
    file = reading.open(PATH)
    assert file.size_bytes == len(content)
    for first in range(len(content) + 2):
        for end in range(first, len(content) + 2):
            assert file.read(first, end - first) == content[first:end]


def test_patched_file_that_was_read_whole_is_not_kept_open(disk: MemoryDisk) -> None:
    """A log directory has many files, and a process few descriptors."""
    before = disk.open_files
    assert ReadOnlyDisk(disk, {PATH: [(0, b"x")]}).read_file(PATH) == b"x123456789"
    assert disk.open_files == before
