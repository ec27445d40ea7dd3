"""A disk that is full: producers are refused, and what ends transactions is written in the room that is kept back for it.

A directory is full from the first write on that finds no room, and no producer is served before all of the reserve is back
and as much again is free: what is kept back would be theirs otherwise. Nor is anything copied, cleaned or taken from a leader.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from oncelog.environment import Disk, DiskError, DiskFullError, Share
from oncelog.log import DataDirectory, DirectoryState, LogDirectories, Reserve

logger = logging.getLogger("oncelog.broker")

ROOM_BYTES_MIN = 1024 * 1024
"""So much has to be free again where nothing is kept back."""


class DiskSpace:
    """`survives` is told of a disk that fails, and says whether the broker goes on without it."""

    def __init__(
        self, disk: Disk, directories: LogDirectories, reserve_bytes: int, survives: Callable[[DiskError], bool]
    ) -> None:
        self._disk = disk
        self._directories = directories
        self._survives = survives
        self._room_bytes = reserve_bytes or ROOM_BYTES_MIN
        self._reserves = {one: Reserve(disk, one.path, reserve_bytes) for one in directories}
        disk.when_full(self._make_room)

    def of(self, path: str) -> tuple[int, int]:
        """The bytes of the disk that a log directory is on, and those that are left. Raises DiskError."""
        return self._disk.space(path)

    def keep_back(self) -> None:
        """Take the reserve of each directory; one for which there is no room is full. Raises DiskError."""
        for directory, reserve in self._reserves.items():
            try:
                reserve.take()
            except DiskFullError:
                self._is_full(directory)

    def look_for_room(self) -> None:
        """Serve producers again where there is room."""
        for directory, reserve in self._reserves.items():
            if not directory.is_full:
                continue
            try:
                self._look(directory, reserve)
            except DiskError as error:
                if not self._survives(error):
                    raise

    def _look(self, directory: DataDirectory, reserve: Reserve) -> None:
        _, free_bytes = self._disk.space(directory.path)
        if free_bytes < reserve.missing_bytes + self._room_bytes:
            return
        try:
            reserve.take()
        except DiskFullError:
            return
        directory.state = DirectoryState.ONLINE
        self._keep_room()
        logger.warning("the disk of log directory %s has room again, and producers are served", directory.path)

    def _make_room(self, path: str, share: Share) -> bool:
        """A write has found no room. Other directories on this disk have none either, and must not take what is given up."""
        directory = self._directories.of_path(path)
        if directory is None or directory.is_offline:
            return False
        self._is_full(directory)
        for other in self._directories:
            if other.state is DirectoryState.ONLINE and self._disk.space(other.path)[1] < self._room_bytes:
                self._is_full(other)
        return self._reserves[directory].give_up(share)

    def _is_full(self, directory: DataDirectory) -> None:
        if directory.state is DirectoryState.ONLINE:
            directory.state = DirectoryState.FULL
            self._keep_room()
            logger.error(
                "the disk of log directory %s is full: producers are refused until there is room", directory.path
            )

    def _keep_room(self) -> None:
        self._disk.keep_room_in([one.path for one in self._directories if one.is_full])
