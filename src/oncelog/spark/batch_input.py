"""The input of a micro-batch: the clusters of its topics, its start offsets and its end offsets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from oncelog.client import Client, TopicDescription, TopicPartition
from oncelog.client.security import Security
from oncelog.spark.checkpoint import BatchOffsets, CheckpointError
from oncelog.spark.offsets import Offsets, begins_of, digest, from_json, is_offsets, to_json
from oncelog.spark.query import Source
from oncelog.wire import ErrorCode

CARRIER_PARTITION = 0
"""The partition of the output whose offset carries the fence record where no input is the output's cluster's."""


@dataclass(frozen=True, slots=True)
class InputClusters:
    """The sources of a query in the order of the checkpoint's lines, by the cluster that has their topics.

    `own` are those of the output's cluster. `foreign` are those of other clusters, by their bootstrap servers, or by some of
    them where a cluster has several; how each of these is reached is in `security`.
    """

    source_count: int
    own: frozenset[int]
    foreign: dict[str, tuple[int, ...]]
    security: Mapping[str, Security] = field(default_factory=dict)


def input_clusters(own_servers: str, own_security: Security, sources: Sequence[Source]) -> InputClusters:
    """Tell the clusters apart by their ids: one cluster may have several addresses. Raises ClientError."""
    ways = {source.servers: source.security for source in sources if source.servers is not None}
    found = set(ways)
    ways[own_servers] = own_security
    ids = {servers: cluster_id(servers, security) for servers, security in ways.items()} if len(ways) > 1 else {}
    own = {servers for servers in found if servers == own_servers or ids[servers] == ids[own_servers]}
    foreign: dict[str, tuple[int, ...]] = {}
    one_of = {ids[servers]: servers for servers in sorted(found - own, reverse=True)}
    for place, source in enumerate(sources):
        if source.servers is not None and source.servers not in own:
            servers = one_of[ids[source.servers]]
            foreign[servers] = (*foreign.get(servers, ()), place)
    return InputClusters(
        source_count=len(sources),
        own=frozenset(place for place, source in enumerate(sources) if source.servers in own),
        foreign=foreign,
        security={servers: ways[servers] for servers in foreign},
    )


def cluster_id(servers: str, security: Security) -> str | None:
    with Client(servers, security=security) as client:
        return client.describe_cluster().cluster_id


@dataclass(frozen=True, slots=True)
class BatchInput:
    """The input of a micro-batch.

    `end` holds the offsets on the output's cluster, `foreign_end` those on other clusters, by their bootstrap servers.
    `start` is None unless all of the input's offsets are on the output's cluster. `unclear` are partitions of `end`
    that several sources read up to different offsets, of which `end` has the lowest. The digests are of all sources,
    those without Kafka offsets included; `start_digest` is None where a start is not known.
    """

    start: Offsets | None
    end: Offsets
    unclear: frozenset[TopicPartition]
    foreign_end: dict[str, Offsets]
    start_digest: str | None
    end_digest: str
    offset_count: int | None
    planned_ms: int

    def without_deleted_partitions(self, client: Client) -> BatchInput:
        """Leave out the offsets of partitions that were deleted since Spark planned the micro-batch: no broker commits those.

        Raises ClientError.
        """
        if not self.end:
            return self
        described = client.metadata({item.topic for item in self.end}, wanted=self.end)
        gone = {item for item in self.end if _is_gone(item, described[item.topic])}
        end = {item: offset for item, offset in self.end.items() if item not in gone}
        return replace(self, end=end, unclear=self.unclear - gone)

    @property
    def topics(self) -> set[str]:
        """The topics of the output's cluster."""
        return {item.topic for item in self.end}

    def committed(self, topic: str | None) -> list[TopicPartition]:
        """The partitions whose offsets are committed with it, and carry its fence record. `topic` is the output's."""
        if self.end or topic is None:
            return list(self.end)
        return [TopicPartition(topic, CARRIER_PARTITION)]


def batch_input(clusters: InputClusters, offsets: BatchOffsets, first_starts: Sequence[str | None]) -> BatchInput:
    """Put a checkpoint's lines together with the sources that they belong to. Raises CheckpointError.

    Where the first micro-batch starts is in its end, or else, as with other sources, in its plan alone: `first_starts`, one
    for each source, or none where no plan is to be seen.
    """
    if len(offsets.end) != clusters.source_count:
        raise CheckpointError(
            f"the checkpoint has offsets of {len(offsets.end)} sources for micro-batch {offsets.batch_id}, and the query "
            f"has {clusters.source_count}"
        )
    start_lines = _first_starts(offsets.end, first_starts) if offsets.batch_id == 0 else offsets.start
    known = [line for line in start_lines if line is not None]
    is_complete = len(known) == clusters.source_count
    ends = _read(offsets.end)
    starts = _read(start_lines)
    is_own = len(clusters.own) == clusters.source_count
    end, unclear = _merged([ends[place] for place in sorted(clusters.own)])
    return BatchInput(
        start=_merged(starts)[0] if is_complete and is_own else None,
        end=end,
        unclear=unclear,
        foreign_end={
            servers: _merged([ends[place] for place in places])[0] for servers, places in clusters.foreign.items()
        },
        start_digest=digest(known) if is_complete else None,
        end_digest=digest(offsets.end_lines),
        offset_count=_offset_count(starts, ends) if is_complete and all(map(_is_kafka, offsets.end)) else None,
        planned_ms=offsets.planned_ms,
    )


def _is_gone(partition: TopicPartition, topic: TopicDescription) -> bool:
    if topic.error is ErrorCode.none:
        return partition.partition not in {item.partition for item in topic.partitions}
    return topic.error is ErrorCode.unknown_topic_or_partition


def _first_starts(ends: Sequence[str | None], planned: Sequence[str | None]) -> list[str | None]:
    plan = planned or [None] * len(ends)
    told = [begins_of(json.loads(line)) if line is not None and is_offsets(line) else None for line in ends]
    return [start if begins is None else to_json(begins) for begins, start in zip(told, plan, strict=True)]


def _is_kafka(line: str | None) -> bool:
    return line is not None and is_offsets(line)


def _read(lines: Sequence[str | None]) -> list[Offsets]:
    return [from_json(line) if line is not None and is_offsets(line) else {} for line in lines]


def _merged(ends: Sequence[Offsets]) -> tuple[Offsets, frozenset[TopicPartition]]:
    """The offsets of several sources together: of a partition that two of them read, the lower one, which is unclear."""
    merged: Offsets = {}
    for offsets in ends:
        for item, offset in offsets.items():
            merged[item] = min(offset, merged.get(item, offset))
    unclear = {item for offsets in ends for item, offset in offsets.items() if offset != merged[item]}
    return merged, frozenset(unclear)


def _offset_count(starts: Sequence[Offsets], ends: Sequence[Offsets]) -> int:
    return sum(
        max(0, offset - start.get(item, 0))
        for start, end in zip(starts, ends, strict=True)
        for item, offset in end.items()
    )
