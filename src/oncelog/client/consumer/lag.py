"""The records that a reader has before it, counted: offsets alone cannot tell, for the ends of transactions take some, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from oncelog.client.consumer.fetching import Fetches, FetchSettings
from oncelog.client.consumer.offsets import list_offsets
from oncelog.client.consumer.readings import FetchedBatches, visible_batches
from oncelog.client.errors import CorruptRecords, RetriesExhausted
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import ConnectionUse
from oncelog.client.values import OffsetSpec, TopicPartition
from oncelog.records import decode_batch
from oncelog.wire import WireError


async def count_records(
    cluster: Cluster, settings: FetchSettings, positions: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Count what a reader with these settings would still be given, up to the end as it is now, by reading it.

    Only the headers of batches are looked at, except in the batch that a position is in the middle of. A leader that has just
    become one may say for a while that the log ends earlier: that is waited for, as long as a call may take.
    Raises OffsetOutOfRange, BrokerRefused or RetriesExhausted.
    """
    counts = dict.fromkeys(positions, 0)
    if not positions:
        return counts
    listed = await list_offsets(cluster, dict.fromkeys(positions, OffsetSpec.LATEST), settings.isolation_level)
    ends = {partition: listed[partition].offset for partition in positions}
    unread = {partition for partition, offset in positions.items() if offset < ends[partition]}
    fetches = Fetches(cluster, replace(settings, max_wait_ms=0), ConnectionUse.PROMPT)
    for partition in unread:
        fetches.read(partition, positions[partition], ends[partition])
    retries = await cluster.retries()
    while unread:
        has_more = False
        for fetched in await fetches.next(await retries.left_ms()):
            partition = fetched.partition
            has_more = has_more or bool(fetched.chunks)
            try:
                counts[partition] += _count(fetched, positions[partition], ends[partition])
            except WireError as error:
                raise CorruptRecords(f"counting the records of {partition}: {error}") from error
            if fetched.next_offset >= ends[partition]:
                unread.discard(partition)
        if has_more:
            retries = await cluster.retries()
        elif unread and not await retries.pause():
            named = ", ".join(map(str, sorted(unread)))
            raise RetriesExhausted(f"counting the records of {named}: the leader has none up to the end that was named")
    return counts


def _count(fetched: FetchedBatches, from_offset: int, end_offset: int) -> int:
    count = 0
    for chunk, position, header in visible_batches(fetched):
        if header.is_control or header.base_offset >= end_offset:
            continue
        if header.base_offset >= from_offset:
            count += header.record_count
        else:
            count += sum(record.offset >= from_offset for record in decode_batch(chunk, position))
    return count
