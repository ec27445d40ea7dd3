"""What a query's progress says of its sources, in the words of Spark's own Kafka source.

Spark has no place in a progress report that a source in Python could fill, but for the offsets. So this is computed from
them, wherever a report is: in a StreamingQueryListener, or `query.lastProgress`.
"""

from __future__ import annotations

from typing import Any

from oncelog.client.values import TopicPartition
from oncelog.spark.offsets import Offsets, from_json, from_tree, is_offsets


def lag(progress: Any) -> dict[TopicPartition, int]:
    """Records behind, by partition, from a query's `lastProgress`; offsets of markers count as records."""
    behind: dict[TopicPartition, int] = {}
    for source in progress["sources"]:
        behind |= _behind(source)
    return behind


def source_metrics(progress: Any) -> list[dict[str, str]]:
    """For each source, in order, the metrics that Spark's Kafka source has: how many offsets its partitions are behind.

    They are minOffsetsBehindLatest, maxOffsetsBehindLatest and avgOffsetsBehindLatest, as text. A source that reads no
    topics, or has not looked for new records yet, has none.
    """
    return [_metrics(list(_behind(source).values())) for source in progress["sources"]]


def source_description(source: Any) -> str:
    """What one source of a report reads: "oncelog[Subscribe[a, b]]". The description of other sources is Spark's."""
    topics = sorted({partition.topic for partition in _offsets(source["endOffset"])})
    return f"oncelog[Subscribe[{', '.join(topics)}]]" if topics else str(source["description"])


def _metrics(behind: list[int]) -> dict[str, str]:
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": str(min(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
    }


def _behind(source: Any) -> dict[TopicPartition, int]:
    latest, end = _offsets(source["latestOffset"]), _offsets(source["endOffset"])
    return {item: max(0, offset - end.get(item, 0)) for item, offset in latest.items()}


def _offsets(found: Any) -> Offsets:
    """Offsets in a progress report, which come as a dictionary or as its JSON; none for other sources."""
    if isinstance(found, str):
        return from_json(found) if is_offsets(found) else {}
    return from_tree(found) if found else {}
