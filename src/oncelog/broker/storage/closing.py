"""How the logs are closed at a stop, so that the next start has nothing to repair."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import islice

from oncelog.broker.storage.topics import Topics
from oncelog.environment import Disk, DiskError
from oncelog.log import DataDirectory, LogDirectories

logger = logging.getLogger("oncelog.broker")

CLOSED_AT_ONCE = 64
"""So many logs are made durable side by side."""


def close_logs(disk: Disk, directories: LogDirectories, topics: Topics, survives: Callable[[DiskError], bool]) -> None:
    """Blocks on the disk. Raises DiskError if the disk fails that the broker cannot do without."""
    for directory in directories:
        try:
            if not directory.is_offline:
                _close_logs_in(directory, disk, topics)
        except DiskError as error:
            if not survives(error):
                raise
    for partition in topics.every_partition():
        if partition.unopened is None and partition.directory.is_offline:
            partition.log.abandon()


def _close_logs_in(directory: DataDirectory, disk: Disk, topics: Topics) -> None:
    here = (partition for partition in topics.every_partition() if partition.directory is directory)
    logs = (partition.log for partition in here if partition.unopened is None)
    while some := list(islice(logs, CLOSED_AT_ONCE)):
        disk.sync_all([file for log in some for file in log.seal()])
        for log in some:
            log.close()


def mark_clean_shutdown(directories: LogDirectories) -> None:
    """A directory that is offline is not closed: without its mark the stop was not a clean one."""
    for directory in directories.online:
        try:
            directory.mark_clean_shutdown()
        except DiskError as error:
            if directories.is_home(directory):
                raise
            logger.error("log directory %s is not marked as stopped cleanly: %s", directory.path, error)
