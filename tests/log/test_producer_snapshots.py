"""The bytes of a producer snapshot are Kafka's (ProducerStateManager.writeSnapshot)."""

from __future__ import annotations

from struct import pack

from oncelog.log.producer_snapshots import decode_snapshot, encode_snapshot
from oncelog.log.producers import ProducerStateEntry


def test_producer_of_which_a_marker_alone_is_known_has_no_batch() -> None:
    """Sequence and offset are -1 then, the delta is 0."""
    producer = ProducerStateEntry(7, 3)
    producer.last_timestamp_ms, producer.coordinator_epoch = 5, 2
    data = encode_snapshot([producer])
    assert data[6:] == pack(">iqhiqiqiq", 1, 7, 3, -1, -1, 0, 5, 2, -1)
    (read,) = decode_snapshot(data)
    assert (read.producer_id, read.epoch, read.batches, read.transaction_first_offset) == (7, 3, (), None)
    assert (read.last_timestamp_ms, read.coordinator_epoch) == (5, 2)
