"""`.txnindex`: the aborted transactions whose marker is in a segment.

 0   version i16      0
 2   producer id i64
10   first offset i64
18   last offset i64          of the ABORT marker; grows from entry to entry
26   last stable offset i64   just after the marker
"""

from __future__ import annotations

from bisect import bisect_left
from struct import Struct

from oncelog.environment import Disk, DiskError
from oncelog.log.entry_file import EntryFile
from oncelog.log.outcome import AbortedTransaction

VERSION = 0

_ENTRY = Struct(">hqqqq")


class TransactionIndex:
    """Without its entry an aborted transaction would reach readers: it is written at once, and synced with the log."""

    __slots__ = ("_entries", "file")

    def __init__(self, disk: Disk, path: str, *, exists: bool) -> None:
        self.file = EntryFile(disk, path, _ENTRY.size, exists=exists)
        self._entries: list[AbortedTransaction] | None = None if exists else []

    def append(self, aborted: AbortedTransaction) -> None:
        entries = self.entries()
        assert not entries or entries[-1].last_offset < aborted.last_offset, "aborts are indexed in their order"
        self.file.append(_ENTRY.pack(VERSION, *aborted))
        self.file.write_out()
        entries.append(aborted)

    def entries(self) -> list[AbortedTransaction]:
        """Every entry, in the order of the markers. Raises DiskError if the file holds something else."""
        if self._entries is None:
            self._entries = self._read()
        return self._entries

    def between(self, offset: int, upper_bound_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Those with records in [offset, upper bound), and whether later segments have no more of them."""
        entries = self.entries()
        found = []
        for entry in entries[bisect_left(entries, offset, key=lambda entry: entry.last_offset) :]:
            if entry.first_offset < upper_bound_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False

    def truncate(self, offset: int) -> None:
        """Keep the entries of markers before `offset`. Entries that are not entries count as later."""
        data = self.file.read_all()
        kept: list[AbortedTransaction] = []
        for version, *fields in _ENTRY.iter_unpack(data):
            entry = AbortedTransaction(*fields)
            if (
                version != VERSION
                or entry.last_offset >= offset
                or (kept and entry.last_offset <= kept[-1].last_offset)
            ):
                break
            kept.append(entry)
        if len(kept) * _ENTRY.size < len(data):
            self.file.truncate(len(kept))
        self._entries = kept

    def _read(self) -> list[AbortedTransaction]:
        entries: list[AbortedTransaction] = []
        for version, *fields in _ENTRY.iter_unpack(self.file.read_all()):
            entry = AbortedTransaction(*fields)
            if version != VERSION or (entries and entry.last_offset <= entries[-1].last_offset):
                raise DiskError(f"{self.file.path} is damaged at entry {len(entries)}")
            entries.append(entry)
        return entries
