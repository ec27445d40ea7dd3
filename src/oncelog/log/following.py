"""The batches of a leader's answer that a follower appends: whole, unchanged, and going on at its log end offset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from oncelog.log.config import LogConfig
from oncelog.log.outcome import Refused
from oncelog.log.scan import ScannedBatch
from oncelog.log.segment import Segment
from oncelog.records import CorruptBatchError, batches, crc_is_valid
from oncelog.records.batch import MAGIC
from oncelog.records.control import control_problem
from oncelog.wire import ErrorCode


class Followed(NamedTuple):
    """The result of an append by a follower: the number of batches and bytes, and the log end offset now."""

    batch_count: int
    size_bytes: int
    log_end_offset: int


def leader_batches(name: str, records: bytes, log_end_offset: int) -> list[ScannedBatch] | Refused:
    """The batches of a leader's answer; one that is cut short at the end is left out.

    CORRUPT_MESSAGE for bytes that are not what the leader has, INVALID_RECORD for a format that no log has:
    both may be right when they are asked for again. UNKNOWN_SERVER_ERROR, as in Kafka, for batches whose offsets
    do not go on: the logs are not what leader and follower take them for.
    """
    found: list[ScannedBatch] = []
    next_offset = log_end_offset
    try:
        for position, header in batches(records):
            if header.magic != MAGIC:
                return Refused(ErrorCode.invalid_record, f"{name}: the leader sent a batch of format {header.magic}")
            if not crc_is_valid(records, position, header):
                return _corrupt(name, next_offset, "the CRC-32C is not that of the bytes")
            if header.last_offset_delta < 0 or header.base_offset < next_offset:
                message = f"{name}: offset {header.base_offset} does not go on from {next_offset}"
                return Refused(ErrorCode.unknown_server_error, message)
            problem = control_problem(records, position) if header.is_control else None
            if problem is not None:
                return _corrupt(name, next_offset, problem)
            found.append(ScannedBatch(position, header, records, position))
            next_offset = header.next_offset
    except CorruptBatchError as error:
        return _corrupt(name, next_offset, str(error))
    return found


def _corrupt(name: str, offset: int, reason: str) -> Refused:
    return Refused(ErrorCode.corrupt_message, f"{name}: what the leader sent for offset {offset} is corrupt: {reason}")


def fitting(
    batches: Sequence[ScannedBatch], segment: Segment, now_ms: int, config: LogConfig, jitter_ms: int
) -> Iterator[ScannedBatch]:
    """The first batches that go into a segment before it rolls, so that a follower's files end where a leader's do.

    The first one of an empty segment goes alone: from then on it is known when that one is too old.
    """
    if segment.size_bytes == 0:
        yield batches[0]
        return
    size_bytes = 0
    for batch in islice(batches, max(1, segment.indexes.entries_left)):
        header = batch.header
        size_bytes += header.size_bytes
        if segment.should_roll(size_bytes, header.last_offset, header.max_timestamp_ms, now_ms, config, jitter_ms):
            return
        yield batch
