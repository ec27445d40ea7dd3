"""Which batches of a fetched chunk a reader sees."""

from __future__ import annotations

from collections.abc import Iterator

from typing_extensions import Buffer

from oncelog.client.consumer.readings import FetchedBatches
from oncelog.records import BatchHeader, ControlType, batches, read_control


def visible_batches(fetched: FetchedBatches) -> Iterator[tuple[Buffer, int, BatchHeader]]:
    """Every batch as (chunk, position, header), control batches included, without those of aborted transactions.

    A producer's transactional batches are aborted from the first offset of an aborted transaction to its ABORT marker.
    """
    coming = list(fetched.aborted)
    aborted: set[int] = set()
    for chunk in fetched.chunks:
        for position, header in batches(chunk):
            while coming and coming[0][1] <= header.last_offset:
                aborted.add(coming.pop(0)[0])
            if header.is_control:
                if header.producer_id in aborted and is_abort(chunk, position):
                    aborted.remove(header.producer_id)
            elif header.is_transactional and header.producer_id in aborted:
                continue
            yield chunk, position, header


def is_abort(chunk: Buffer, position: int) -> bool:
    marker = read_control(chunk, position)
    return marker is not None and marker.control is ControlType.ABORT
