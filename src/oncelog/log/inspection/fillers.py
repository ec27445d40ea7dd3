"""Batches that stand for offsets whose records are lost: empty, as compaction leaves them, so that offsets stay without a gap."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.log.inspection.lost_markers import LostMarker
from oncelog.log.segment import RELATIVE_OFFSET_MAX
from oncelog.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, BatchHeader, control_batch
from oncelog.records.batch import MAGIC, seal


def stand_in(first_offset: int, next_offset: int, leader_epoch: int, markers: Sequence[LostMarker] = ()) -> bytes:
    """The bytes for the offsets from `first_offset` to `next_offset`: the markers where they were, and nothing else."""
    parts = []
    offset = first_offset
    for marker in markers:
        parts.append(_empty(offset, marker.offset, leader_epoch))
        parts.append(
            control_batch(
                marker.control,
                marker.producer_id,
                marker.producer_epoch,
                marker.coordinator_epoch,
                marker.timestamp_ms,
                base_offset=marker.offset,
                leader_epoch=leader_epoch,
            )
        )
        offset = marker.offset + 1
    parts.append(_empty(offset, next_offset, leader_epoch))
    return b"".join(parts)


def _empty(first_offset: int, next_offset: int, leader_epoch: int) -> bytes:
    if first_offset >= next_offset:
        return b""
    delta = next_offset - 1 - first_offset
    assert delta <= RELATIVE_OFFSET_MAX, "a segment has no more offsets"
    header = BatchHeader(
        base_offset=first_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=delta,
        base_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=NO_TIMESTAMP,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=0,
    )
    return seal(header, b"")
