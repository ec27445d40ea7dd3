"""`.txnindex`: the aborted transactions whose marker is in a segment.

 0   version i16      0
 2   producer id i64
10   first offset i64
18   last offset i64          of the ABORT marker; grows from entry to entry
26   last stable offset i64   just after the marker
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import takewhile
from struct import Struct

from oncelog.environment import Disk
from oncelog.log.damage import DamagedLogError
from oncelog.log.entry_file import EntryFile
from oncelog.log.outcome import AbortedTransaction
from oncelog.records.checksum import crc32c

VERSION = 0

_ENTRY = Struct(">hqqqq")


class TransactionIndex:
    """Without its entry an aborted transaction would reach readers: it is written at once, and synced with the log."""

    __slots__ = ("_digest", "_entries", "file")

    def __init__(self, disk: Disk, path: str, *, exists: bool) -> None:
        self.file = EntryFile(disk, path, _ENTRY.size, exists=exists)
        self._entries: list[AbortedTransaction] | None = None if exists else []
        self._digest: tuple[int, int, int] | None = None if exists else (0, 0, -1)
        """The number and the CRC-32C of all entries, and the last offset of the last."""

    def append(self, aborted: AbortedTransaction) -> None:
        entries = self.entries()
        assert not entries or entries[-1].last_offset < aborted.last_offset, "aborts are indexed in their order"
        count, crc, _ = self._digest or _digest(entries)
        entry = _ENTRY.pack(VERSION, *aborted)
        self._digest = count + 1, crc32c(entry, crc), aborted.last_offset
        self.file.append(entry)
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

    def digest(self, offset: int) -> tuple[int, int]:
        """The number and the CRC-32C of the entries of markers before `offset`, as they were written or last read."""
        if self._digest is None:
            self._digest = _digest(self.entries())
        count, crc, last_offset = self._digest
        if last_offset < offset:
            return count, crc
        return _digest([entry for entry in self.entries() if entry.last_offset < offset])[:2]

    def digest_in_file(self, offset: int) -> tuple[int, int]:
        """The same, of the entries in the file up to the first that can be none; nothing of it is believed."""
        if not self.file.exists:
            return 0, 0
        whole = self._whole_entries()
        if len(whole) < self.file.count:
            return len(whole), -1
        return _digest([entry for entry in whole if entry.last_offset < offset])[:2]

    def is_sane(self) -> bool:
        return len(self._whole_entries()) == self.file.count

    def truncate(self, offset: int) -> None:
        """Keep the entries of markers before `offset`."""
        self._keep([entry for entry in self.entries() if entry.last_offset < offset])

    def settle(self, offset: int, aborted: Sequence[AbortedTransaction]) -> None:
        """After a crash: from `offset` on there are to be the entries of `aborted`, whatever the file says.

        Entries that are right stay as they are, for they may be durable; what is written is made durable.
        """
        entries = self._whole_entries()
        wanted = [*(entry for entry in entries if entry.last_offset < offset), *aborted]
        if entries == wanted and self.file.count == len(wanted):
            self._entries = wanted
            self._digest = None
            return
        right = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(entries, wanted, strict=False)))
        self._keep(wanted[:right])
        for entry in wanted[right:]:
            self.append(entry)
        if self.file.exists:
            self.file.create().sync()

    def _keep(self, entries: list[AbortedTransaction]) -> None:
        if len(entries) < self.file.count:
            self.file.truncate(len(entries))
        self._entries = entries
        self._digest = None

    def _read(self) -> list[AbortedTransaction]:
        entries = self._whole_entries()
        if len(entries) < self.file.count:
            raise DamagedLogError(f"{self.file.path} is damaged at entry {len(entries)}")
        return entries

    def _whole_entries(self) -> list[AbortedTransaction]:
        """The entries up to the first that can be none."""
        entries: list[AbortedTransaction] = []
        before = -1
        for version, *fields in _ENTRY.iter_unpack(self.file.read_all()):
            entry = AbortedTransaction(*fields)
            if version != VERSION or entry.last_offset <= max(before, entry.first_offset):
                break
            entries.append(entry)
            before = entry.last_offset
        return entries


def _digest(entries: Sequence[AbortedTransaction]) -> tuple[int, int, int]:
    crc = 0
    for entry in entries:
        crc = crc32c(_ENTRY.pack(VERSION, *entry), crc)
    return len(entries), crc, entries[-1].last_offset if entries else -1
