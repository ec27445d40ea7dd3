"""One segment takes the place of several, in steps that a start completes or undoes, whenever the power is cut.

1. `.cleaned` becomes `.swap`: first the indexes, then the log. From here on the new segment counts.
2. The old segments' files get names that end with `.deleted`.
3. `.swap` goes from the names: first from those of the indexes, then from that of the log.

The new files are durable before the first step, and a file system keeps the order of names. Apache Kafka takes the same steps
(LocalLog.replaceSegments), and finishes what it finds in the same way (LogLoader).
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from oncelog.environment import Disk
from oncelog.log.names import LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, offset_name, offset_of
from oncelog.log.outcome import DamagedLogError
from oncelog.log.scan import Scan

CLEANED = ".cleaned"
SWAP = ".swap"
INDEXES = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)

_INDEX_ENTRY = Struct(">ii")


def put_in_place(disk: Disk, directory: str, base_offset: int, set_aside: Callable[[], None]) -> list[str]:
    """Put the `.cleaned` files at `base_offset`, which are closed and durable, in the place of those that `set_aside` renames.

    Return the names that they have now.
    """
    names = [offset_name(base_offset, suffix) for suffix in (*INDEXES, LOG)]
    paths = [f"{directory}/{name}" for name in names]
    for path in paths:
        disk.rename(path + CLEANED, path + SWAP)
    set_aside()
    for path in paths:
        disk.rename(path + SWAP, path)
    return names


def finish_replacements(disk: Disk, directory: str) -> list[str]:
    """Complete at a start what a stop has interrupted, and remove what did not count yet; return the names that there are."""
    names = disk.list_directory(directory)
    if not any(name.endswith((CLEANED, SWAP)) for name in names):
        return names
    for base in [base for name in names if (base := offset_of(name, LOG + SWAP)) is not None]:
        _finish(disk, directory, base)
    for name in disk.list_directory(directory):
        if name.endswith((CLEANED, SWAP)):
            disk.remove(f"{directory}/{name}")
    return disk.list_directory(directory)


def _finish(disk: Disk, directory: str, base_offset: int) -> None:
    end_offset = _end_offset(disk, directory, base_offset)
    for name in disk.list_directory(directory):
        old = offset_of(name, LOG)
        if old is not None and base_offset < old < end_offset:
            for suffix in (*INDEXES, LOG):
                disk.remove(f"{directory}/{offset_name(old, suffix)}")
    for suffix in (*INDEXES, LOG):
        path = f"{directory}/{offset_name(base_offset, suffix)}"
        if disk.exists(path + SWAP):
            disk.rename(path + SWAP, path)


def _end_offset(disk: Disk, directory: str, base_offset: int) -> int:
    """The end offset of the new segment, which is that of the last old one."""
    path = f"{directory}/{offset_name(base_offset, LOG)}{SWAP}"
    file = disk.open(path)
    try:
        scan = Scan(file, _last_indexed(disk, directory, base_offset), file.size_bytes, base_offset, check_crc=False)
        for _ in scan:
            pass
    finally:
        file.close()
    if scan.fault is not None:
        raise DamagedLogError(
            f"{path} is damaged at offset {scan.fault.offset}, byte {scan.fault.position}: {scan.fault.reason}"
        )
    return scan.next_offset


def _last_indexed(disk: Disk, directory: str, base_offset: int) -> int:
    """The position of the last batch that the offset index knows, so that the log need not be read from its beginning."""
    path = f"{directory}/{offset_name(base_offset, OFFSET_INDEX)}"
    found = [one for one in (path + SWAP, path) if disk.exists(one)]
    data = disk.read_file(found[0]) if found else b""
    if len(data) < _INDEX_ENTRY.size:
        return 0
    _, position = _INDEX_ENTRY.unpack_from(data, len(data) // _INDEX_ENTRY.size * _INDEX_ENTRY.size - _INDEX_ENTRY.size)
    assert isinstance(position, int)
    return position
