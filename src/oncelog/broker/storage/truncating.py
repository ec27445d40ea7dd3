"""Cutting logs off while the broker runs: a follower gives up what its leader does not have.

A power cut at any moment leaves each log as it was, or cut off, or something in between that is as far as it goes what was
written. For that, nothing may claim that what goes was durable, and nothing may put it back: first the write-ahead log
takes back what it has of it, then the checkpoints are written, and only then are the files cut.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.broker.storage.checkpoints import Checkpoints
from oncelog.broker.storage.durability import Durability
from oncelog.log import PartitionLog


async def truncate_logs(durability: Durability, checkpoints: Checkpoints, offsets: Mapping[PartitionLog, int]) -> None:
    """Cut each log off at its offset; one that begins later becomes an empty log that begins there.

    Nobody may append to the logs meanwhile. Raises DiskError.
    """
    kept = {log: offset for log, offset in offsets.items() if log.log_start_offset <= offset}
    ends = {log: log.files.begin_truncation(offset) for log, offset in kept.items() if offset < log.log_end_offset}
    await durability.take_back(ends)
    if ends:
        await checkpoints.write()
    for log, offset in kept.items():
        await durability.hold(log)
        try:
            log.truncate_to(offset)
        finally:
            durability.let_go(log)
    await begin_logs_again(durability, checkpoints, {log: offset for log, offset in offsets.items() if log not in kept})


async def begin_logs_again(
    durability: Durability, checkpoints: Checkpoints, offsets: Mapping[PartitionLog, int]
) -> None:
    """Make each log an empty one that begins at its offset (Kafka's truncateFullyAndStartAt).

    Nobody may append to the logs meanwhile. Raises DiskError.
    """
    if not offsets:
        return
    begins = {log: min(offset, log.segments[0].base_offset) for log, offset in offsets.items()}
    await durability.take_back({log: log.files.begin_truncation(begin) for log, begin in begins.items()})
    # A checkpoint is several files: that nothing is durable has to be said before another beginning is.
    await checkpoints.write()
    held: list[PartitionLog] = []
    try:
        for log, offset in offsets.items():
            await durability.hold(log)
            held.append(log)
            log.begin_again_at(offset)
        await checkpoints.write()
        for log in offsets:
            log.files.delete_old()
    finally:
        for log in held:
            durability.let_go(log)
