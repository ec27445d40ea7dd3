"""The file that says which transactions of a segment were aborted."""

from __future__ import annotations

import pytest

from harness.memory_disk import MemoryDisk
from oncelog.log import AbortedTransaction
from oncelog.log.segment_indexes import TransactionIndex

PATH = "/data/00000000000000000000.txnindex"
ABORTED = [AbortedTransaction(7, first, first + 2, first) for first in (0, 3, 6)]
WRONG = AbortedTransaction(8, 3, 5, 3)


@pytest.mark.parametrize("known", range(4))
@pytest.mark.parametrize("offset", [0, 2, 3, 5, 6, 8, 9])
def test_replaced_index_has_each_abort_once_whatever_the_file_had_from_there_on(known: int, offset: int) -> None:
    """The log may be read again from a marker on, whose entry is in the file."""
    disk = MemoryDisk()
    disk.make_directory("/data")
    index = TransactionIndex(disk, PATH, exists=False)
    for entry in [*(one for one in ABORTED if one.last_offset < offset), *ABORTED[:known]]:
        if entry not in index.entries():
            index.append(entry)
    index.replace_from(offset, [one for one in ABORTED if one.last_offset >= offset])
    assert index.entries() == ABORTED
    assert TransactionIndex(disk, PATH, exists=True).entries() == ABORTED


def test_replaced_index_forgets_an_abort_that_is_not_in_the_log() -> None:
    disk = MemoryDisk()
    disk.make_directory("/data")
    index = TransactionIndex(disk, PATH, exists=False)
    for entry in (ABORTED[0], WRONG):
        index.append(entry)
    index.replace_from(3, ABORTED[1:])
    assert index.entries() == ABORTED


def test_digest_of_what_was_written_is_that_of_the_file() -> None:
    disk = MemoryDisk()
    index = TransactionIndex(disk, PATH, exists=False)
    assert index.digest(100) == index.digest_in_file(100) == (0, 0)
    for count, aborted in enumerate(ABORTED, 1):
        index.append(aborted)
        assert index.digest(100) == index.digest_in_file(100)
        assert index.digest(100)[0] == count
    assert index.digest(ABORTED[1].last_offset) == TransactionIndex(disk, PATH, exists=True).digest(
        ABORTED[1].last_offset
    )
