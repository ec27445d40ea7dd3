"""The world as the code sees it: the time, a disk, worker threads, the network and random numbers.

Everything below `server/` and the client's transports reaches the machine only through these protocols, so that a
simulation can hand in others. Nothing here blocks for long: writes go to the operating system's page cache, and the one
slow call, making bytes durable, reports back through a callback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol, TypeVar
from uuid import UUID

from typing_extensions import Buffer

T = TypeVar("T")


class DiskError(Exception):
    """A disk refused, lost or changed bytes: no answer is better than a wrong one.

    `path` is the file or directory it is about. The broker goes on without the log directory that has it; without its home,
    or without a path, it stops.
    """

    def __init__(self, message: str, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class DiskFullError(DiskError):
    """There was no room for a write that may be refused, and nothing of it is there. All else is as it was."""


class RefusedError(Exception):
    """The machine has no memory, or no thread, for a piece of work. Nothing has been changed: the caller may try again."""


class Share(Enum):
    """How much of the room that is kept back a write may take when the disk is full."""

    NONE = "none"
    HALF = "half"
    ALL = "all"


MakeRoom = Callable[[str, Share], bool]
"""Asked for room for a write to a path; says whether there is some now. It may be asked on any thread."""


class DirectoryInUseError(Exception):
    """Another process owns the data directory."""


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01T00:00:00Z, as record timestamps count them."""
        ...

    def monotonic_ms(self) -> float:
        """A time that never goes back, for measuring how long something took."""
        ...

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """Run `callback` once, on the caller's own thread of control, after `delay_ms`."""
        ...


class Syncable(Protocol):
    """Something that can be made durable."""

    def sync(self) -> None:
        """Block until it is durable. For start-up and shutdown only; see Disk.sync. Raises DiskError."""
        ...


class File(Syncable, Protocol):
    """One open file. A failure of any method raises DiskError."""

    @property
    def path(self) -> str: ...

    @property
    def size_bytes(self) -> int: ...

    def append(self, chunks: Sequence[Buffer], share: Share = Share.ALL) -> int:
        """Write the chunks, whose items are bytes, one after the other at the end; return the position of the first byte."""
        ...

    def read(self, position: int, size_bytes: int) -> bytes:
        """Return up to `size_bytes` from `position`; fewer only at the end of the file."""
        ...

    def write(self, position: int, data: Buffer, share: Share = Share.ALL) -> None:
        """Overwrite, or extend, at `position`."""
        ...

    def truncate(self, size_bytes: int) -> None: ...

    def write_back(self, position: int, size_bytes: int) -> None:
        """Begin to bring these bytes to the medium, so that a later sync has less to do. It makes nothing durable.

        It may block for a moment, and never fails.
        """
        ...

    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    """A tree of directories. Paths are absolute strings; a failure of any method raises DiskError.

    A write that finds no room calls the function that was given to `when_full`, to make some. Without one, a write
    that must leave the reserve alone raises DiskFullError, and any other DiskError. The function may be called on
    any thread, by one at a time.
    """

    def when_full(self, make_room: MakeRoom) -> None: ...

    def keep_room_in(self, directories: Sequence[str]) -> None:
        """From now on there is no room in these for a write that may take nothing of what is kept back, however much is free.

        It was given up for other writes: who has less need of it would fill the disk again.
        """
        ...

    def allocate(self, path: str, size_bytes: int) -> None:
        """Have a file of this size that takes as much room, whatever is in it; 0 removes it. Raises DiskFullError."""
        ...

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing. With `create`, an absent file is made; without, it is an error."""
        ...

    def exists(self, path: str) -> bool: ...

    def list_directory(self, path: str) -> list[str]:
        """The names in a directory, sorted."""
        ...

    def make_directory(self, path: str) -> None:
        """Make a directory and its missing parents; no error when it is there already."""
        ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with all that is in it. No error when it is not there."""
        ...

    def modified_ms(self, path: str) -> int: ...

    def read_file(self, path: str) -> bytes: ...

    def replace_file(self, path: str, data: bytes) -> None:
        """Put `data` in place of a small file, durably and at once: readers see the old bytes or the new ones."""
        ...

    def sync(self, files: Sequence[Syncable], done: Callable[[DiskError | None], None]) -> None:
        """Make everything written to `files` so far durable, off the caller's thread of control; then call `done` on it.

        One call to the device serves every caller that is waiting for the same file.
        """
        ...

    def sync_all(self, files: Sequence[Syncable]) -> None:
        """Block until all of them are durable, which are made so side by side. For start-up and shutdown only."""
        ...

    def in_background(self, work: Callable[[], None], done: Callable[[DiskError | None], None]) -> None:
        """Do work that blocks, off the caller's thread of control; then call `done` on it. It may use nothing but the disk."""
        ...

    def finish_background(self) -> None:
        """Block until no background work is under way. For shutdown only: its `done` is called later, or never."""
        ...

    def space(self, path: str) -> tuple[int, int]:
        """The bytes of the file system that `path` is on, and those that may still be written."""
        ...

    def boot_id(self) -> str:
        """Names the time since the machine was last started: bytes that were never made durable live no longer than that."""
        ...

    def lock(self, path: str) -> Lock:
        """Take the lock file, or raise DirectoryInUseError.

        Until it is released, nothing in its directory is made durable, replaced or removed any more once somebody else has
        removed this file or put another one in its place: DiskError.
        """
        ...

    def watch(self, path: str, remedy: str) -> None:
        """The same of another file in a directory whose lock is held. `remedy` says what is to be done then."""
        ...


class Job(Protocol):
    def cancel(self) -> None:
        """Leave it if it has not begun; either way nobody is called back."""
        ...


class Workers(Protocol):
    def run(self, work: Callable[[], T], done: Callable[[T], None], *, is_long: bool) -> Job:
        """Do work that takes the processor, off the caller's thread of control; then call `done` on it with what it returned.

        Raises RefusedError where no thread can be had.
        What is long, seconds that is, holds up nothing but its like; of each kind one piece is done at a time.
        """
        ...


class Link(Protocol):
    """A connection to another process, over which frames come and go: bytes behind their length."""

    def send(self, chunks: Sequence[Buffer]) -> None:
        """Send one frame; its length is in the chunks. Over a link that is closed nothing is sent."""
        ...

    def close(self) -> None:
        """Nothing is called back any more."""
        ...


class LinkListener(Protocol):
    """The owner of a link is called on its own thread of control."""

    def opened(self, link: Link) -> None: ...

    def received(self, frame: memoryview) -> None:
        """A frame without its length. The bytes stay as they are for as long as they are held."""
        ...

    def closed(self, reason: str) -> None:
        """The link could not be made, or is gone; once, and nothing comes after it."""
        ...


class LinkState(Enum):
    OPENING = "opening"
    OPEN = "open"
    CLOSED = "closed"


LINK_TRANSITIONS: dict[tuple[LinkState, LinkState], str] = {
    (LinkState.OPENING, LinkState.OPEN): "the other side accepts",
    (LinkState.OPENING, LinkState.CLOSED): "the other side refuses or is silent; or the owner closes it",
    (LinkState.OPEN, LinkState.CLOSED): "either side closes it, or what comes is no frame",
}


class BrokerNetwork(Protocol):
    def connect(self, host: str, port: int, listener: LinkListener, *, timeout_ms: int) -> Link:
        """Begin to make a link. What is sent before it is open is sent when it is. Nothing is called back from in here."""
        ...


class Random(Protocol):
    def uuid(self) -> UUID: ...

    def fraction(self) -> float:
        """A number in [0, 1)."""
        ...
