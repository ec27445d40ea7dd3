"""Who waits for which file to be durable: one call to the device serves everybody who waits for the same file."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oncelog.environment import DiskError, Syncable

Done = Callable[[DiskError | None], None]


class _Ticket:
    """One caller's wish: so many files are not durable yet."""

    __slots__ = ("done", "error", "missing")

    def __init__(self, missing: int, done: Done) -> None:
        self.missing = missing
        self.done = done
        self.error: DiskError | None = None


class FileSync:
    """One file on its way: those who wait for the sync under way, and those who came after it had begun."""

    __slots__ = ("error", "file", "later", "started", "waiting")

    def __init__(self, file: Syncable, waiting: list[_Ticket]) -> None:
        self.file = file
        self.waiting = waiting
        self.later: list[_Ticket] = []
        self.started = False
        self.error: DiskError | None = None


class Syncs:
    """`start` begins a sync somewhere, sets `started` no later than it begins, and calls back on this thread."""

    def __init__(self, start: Callable[[FileSync, Callable[[FileSync], None]], None]) -> None:
        self._start = start
        self._under_way: dict[Syncable, FileSync] = {}

    def request(self, files: Sequence[Syncable], done: Done) -> None:
        """Call `done` when everything written to `files` so far is durable."""
        if not files:
            done(None)
            return
        ticket = _Ticket(len(files), done)
        for file in files:
            sync = self._under_way.get(file)
            if sync is None:
                self._begin(FileSync(file, [ticket]))
            elif sync.started:
                sync.later.append(ticket)
            else:
                # A sync that starts between the check and this line still covers what was written before the call.
                sync.waiting.append(ticket)

    def _finish(self, sync: FileSync) -> None:
        del self._under_way[sync.file]
        if sync.later:
            self._begin(FileSync(sync.file, sync.later))
        for ticket in sync.waiting:
            ticket.missing -= 1
            ticket.error = ticket.error or sync.error
            if ticket.missing == 0:
                ticket.done(ticket.error)

    def _begin(self, sync: FileSync) -> None:
        self._under_way[sync.file] = sync
        self._start(sync, self._finish)
