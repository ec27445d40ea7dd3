"""The lines of a file, a piece of it at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from oncelog.environment import Disk

CHUNK_BYTES = 64 * 1024


class FileLine(NamedTuple):
    """A line without its end; the last one may have none, and is not whole then."""

    position: int
    data: bytes
    is_whole: bool


def lines_of(disk: Disk, path: str) -> Iterator[FileLine]:
    file = disk.open(path)
    try:
        start, rest = 0, b""
        for position in range(0, file.size_bytes, CHUNK_BYTES):
            *whole, rest = (rest + file.read(position, CHUNK_BYTES)).split(b"\n")
            for data in whole:
                yield FileLine(start, data, True)
                start += len(data) + 1
        if rest:
            yield FileLine(start, rest, False)
    finally:
        file.close()
