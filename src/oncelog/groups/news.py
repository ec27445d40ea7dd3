"""Lines of a broker's log about the records of a group: what has become of its members, and its offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oncelog.coordination.names import first_of
from oncelog.groups.offset_records import OffsetRecord
from oncelog.groups.records import GroupRecord
from oncelog.records import NO_PRODUCER_ID


def news_of(records: Sequence[GroupRecord], producer_id: int = NO_PRODUCER_ID) -> Iterator[str]:
    """`producer_id` is that of the transaction to which they belong."""
    yield from filter(None, (getattr(record, "news", None) for record in records))
    offsets = [record for record in records if isinstance(record, OffsetRecord)]
    committed = [f"{one.topic}-{one.partition} at {one.committed.offset}" for one in offsets if one.committed]
    forgotten = [f"{one.topic}-{one.partition}" for one in offsets if one.committed is None]
    if committed:
        is_pending = producer_id != NO_PRODUCER_ID
        how = f"part of the transaction of producer id {producer_id}" if is_pending else "committed"
        yield f"offsets are {how}: {first_of(committed)}"
    if forgotten:
        yield f"offsets are forgotten: {first_of(forgotten)}"
