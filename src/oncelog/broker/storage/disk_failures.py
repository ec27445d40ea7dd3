"""A disk that fails: the broker goes on without the log directory that the failure is about.

It stops without the home directory, which has the journal and the write-ahead log. A start stops without any directory that
the journal knows: what looks like a lost disk may be one that is not mounted yet.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from oncelog.broker.storage.journal import Journal, LogDirectoryFailed
from oncelog.broker.storage.topics import Topics
from oncelog.environment import DiskError
from oncelog.log import LogDirectories

logger = logging.getLogger("oncelog.broker")


class DiskFailures:
    """`stop` is told of a failure that ends the broker. Until `begin` no failure is survived, and the caller raises the error."""

    def __init__(self, directories: LogDirectories, stop: Callable[[DiskError], None]) -> None:
        self._directories = directories
        self._stop = stop
        self._topics: Topics | None = None

    def begin(self, topics: Topics, journal: Journal) -> None:
        self._topics = topics
        self._journal = journal

    def survives(self, error: DiskError) -> bool:
        """True if the broker goes on. The directory that the error is about is offline from now on."""
        if self._topics is None:
            return False
        directory = None if error.path is None else self._directories.of_path(error.path)
        if directory is None or self._directories.is_home(directory):
            self._stop(error)
            return False
        if not directory.is_offline:
            self._directories.take_offline(directory, str(error))
            # What is made from now on is written behind it.
            self._journal.write([LogDirectoryFailed(directory_id=directory.directory_id)])
            found = self._topics.take_directory_offline(directory)
            logger.error("log directory %s is offline with its %d partitions: %s", directory.path, len(found), error)
        return True
