"""From the batches of a log to its producers."""

from __future__ import annotations

from oncelog.log.outcome import AbortedTransaction
from oncelog.log.producers import Producers
from oncelog.log.scan import ScannedBatch
from oncelog.records import read_control


def replay(producers: Producers, batch: ScannedBatch) -> AbortedTransaction | None:
    """Bring the producers up to date with a batch of the log."""
    header = batch.header
    if header.producer_id < 0:
        return None
    if not header.is_control:
        producers.record_data(header, header.base_offset, header.max_timestamp_ms)
        return None
    marker = read_control(batch.data, batch.position_in_data)
    if marker is None:
        return None
    return producers.record_marker(
        marker.control,
        header.producer_id,
        header.producer_epoch,
        marker.coordinator_epoch,
        header.max_timestamp_ms,
        header.base_offset,
    )
