"""Opening the log of a partition on what its directory has."""

from __future__ import annotations

from uuid import UUID

from oncelog.environment import Clock, Disk
from oncelog.log.checkpoints import LogDigest
from oncelog.log.config import EPOCH_MAX, LONG_MAX, LogConfig
from oncelog.log.partition_log import PartitionLog
from oncelog.log.recovery import LoadedLog, load_log

NO_TOPIC_ID = UUID(int=0)


def open_log(
    disk: Disk,
    clock: Clock,
    directory: str,
    topic: str,
    partition: int,
    config: LogConfig,
    *,
    was_clean: bool,
    recovery_point: int,
    log_start_offset: int = 0,
    leader_epoch: int = 0,
    high_watermark: int | None = None,
    topic_id: UUID = NO_TOPIC_ID,
    durable_end: int = 0,
    aborted: LogDigest | None = None,
    gaps_below: int | None = None,
    is_replica: bool = False,
    leader_epoch_max: int = EPOCH_MAX,
    written: list[LoadedLog] | None = None,
) -> PartitionLog:
    """Open the log in `directory`, or begin one there.

    Below `recovery_point` everything is durable in the log's own files, and below `durable_end` with what the
    write-ahead log has put back; DamagedLogError if it is not there, or not whole, and then nothing has been changed.
    What comes after it is read again unless the log `was_clean`. Without `high_watermark` it is the end of the log:
    there are no followers. One that `is_replica` may follow a leader: inside its files offsets may be missing anywhere, as the
    cleaning of a leader's log leaves them. `leader_epoch` is NO_LEADER_EPOCH for one that does not lead yet. `aborted` says
    what the transaction indexes held at the last checkpoint; without it they are believed. Below `gaps_below` offsets may be
    missing between batches; None says that nothing is known, and then they may be anywhere in a compacted log. `written` takes
    what the caller makes durable, and closes, before anybody counts on the log; without it that is done here. A batch that is
    read here and has an epoch beyond `leader_epoch_max` is an UnknownEpochError.
    """
    name = f"{topic}-{partition}"
    if gaps_below is None:
        gaps_below = LONG_MAX if config.is_compacted else 0
    loaded = load_log(
        disk,
        clock.now_ms(),
        directory,
        config,
        name=name,
        was_clean=was_clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        high_watermark=high_watermark,
        durable_end=durable_end,
        aborted=aborted,
        gaps_below=gaps_below,
        is_replica=is_replica,
        leader_epoch_max=leader_epoch_max,
    )
    log = PartitionLog(
        disk,
        clock,
        directory,
        name,
        topic_id,
        partition,
        config,
        leader_epoch,
        loaded,
        is_replica=is_replica,
        may_have_gaps=gaps_below > 0 or config.is_compacted,
    )
    if written is not None and loaded.written:
        written.append(loaded)
    else:
        for file in loaded.written:
            file.sync()
        loaded.close()
    end = log.log_end_offset
    log.advance_high_watermark(end if high_watermark is None else min(high_watermark, end))
    return log
