"""Offsets of logs, committed offsets of groups, and the offset at which a consumer without one begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeAlias

from oncelog.client import requests
from oncelog.client.errors import ClientError
from oncelog.client.net.cluster import Cluster, CoordinatorKind, ask_coordinator
from oncelog.client.net.flows import WallClock
from oncelog.client.net.leaders import ask_leaders, by_topic
from oncelog.client.net.retry import Retries
from oncelog.client.requests import ApiRequest
from oncelog.client.values import (
    GroupMetadata,
    IsolationLevel,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    OffsetSpec,
    TopicPartition,
)
from oncelog.wire import ErrorCode

CONSUMER_REPLICA_ID = -1
LIST_OFFSETS_MAX_TIMESTAMP_VERSION = 7
LIST_OFFSETS_ISOLATION_VERSION = 2
OFFSET_FETCH_STABLE_VERSION = 7
OFFSET_COMMIT_INSTANCE_VERSION = 7
OFFSET_COMMIT_RETENTION_VERSION_MAX = 4
"""KIP-211: from version 5 on the broker alone says how long an offset is kept."""


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    isolation_level: IsolationLevel,
    arrived: Callable[[Mapping[TopicPartition, OffsetAndTimestamp]], None] | None = None,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """The first offset whose timestamp is at least the one wanted, or what an OffsetSpec says.

    `arrived` gets what each leader says as soon as it does. Raises BrokerRefused or RetriesExhausted.
    """
    lowest = LIST_OFFSETS_MAX_TIMESTAMP_VERSION if any(spec < -2 for spec in wanted.values()) else 0
    if isolation_level is IsolationLevel.READ_COMMITTED:
        lowest = max(lowest, LIST_OFFSETS_ISOLATION_VERSION)

    def request(partitions: Sequence[TopicPartition]) -> ApiRequest:
        topics = [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": item.partition,
                        "current_leader_epoch": cluster.leader_epoch(item),
                        "timestamp": int(wanted[item]),
                    }
                    for item in group
                ],
            }
            for topic, group in by_topic(partitions).items()
        ]
        fields = {"replica_id": CONSUMER_REPLICA_ID, "isolation_level": int(isolation_level), "topics": topics}
        return ApiRequest(requests.LIST_OFFSETS, fields, version_min=lowest)

    return await ask_leaders(cluster, wanted, request, _listed, "listing offsets", arrived)


async def end_offsets(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    isolation_level: IsolationLevel,
    at_least: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The last stable offsets, or the high watermarks for read_uncommitted. Raises BrokerRefused or RetriesExhausted.

    `at_least` is what the caller knows of some ends. That one is before it is believed when no node names another leader:
    one that has not heard of an election says what is no more.
    """
    ends: dict[TopicPartition, int] = {}
    asking, asked = set(partitions), 0
    while asking and (not ends or asked < cluster.denials_needed):
        for partition in asking if ends else ():
            cluster.forget_leader(partition)
        found = await list_offsets(cluster, dict.fromkeys(asking, OffsetSpec.LATEST), isolation_level)
        ends |= {partition: answer.offset for partition, answer in found.items()}
        asking = {partition for partition in asking if ends[partition] < at_least.get(partition, 0)}
        asked += 1
    return ends


def _listed(message: Any) -> Iterable[tuple[TopicPartition, ErrorCode, OffsetAndTimestamp]]:
    for topic in message.topics:
        for item in topic.partitions:
            found = OffsetAndTimestamp(int(item.offset), int(item.timestamp), int(getattr(item, "leader_epoch", -1)))
            yield TopicPartition(str(topic.name), int(item.partition_index)), item.error_code, found


async def committed_offsets(
    cluster: Cluster,
    group: str,
    partitions: Iterable[TopicPartition] | None,
    require_stable: bool,
    arrived: Callable[[Mapping[TopicPartition, OffsetAndMetadata | None]], None] | None = None,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The committed offsets of a group, for some partitions or for all. A partition without one is left out.

    With `require_stable`, waits until no open transaction has an offset of the group pending. `arrived` gets, of every
    answer, the partitions without an error: it does not wait for the others. Raises BrokerRefused or RetriesExhausted.
    """

    def error_of(message: Any) -> ErrorCode:
        if arrived is not None and getattr(message, "error_code", ErrorCode.none) is ErrorCode.none:
            arrived(_committed(message))
        return _fetched_error(message)

    topics = None
    if partitions is not None:
        topics = [
            {"name": topic, "partition_indexes": [item.partition for item in items]}
            for topic, items in by_topic(partitions).items()
        ]
    request = ApiRequest(
        requests.OFFSET_FETCH,
        {"group_id": group, "topics": topics, "require_stable": require_stable},
        version_min=OFFSET_FETCH_STABLE_VERSION if require_stable else 2,
    )
    what = f"reading the offsets of group {group!r}"
    message = await ask_coordinator(cluster, CoordinatorKind.GROUP, group, request, error_of, what)
    return {partition: committed for partition, committed in _committed(message).items() if committed is not None}


def _committed(message: Any) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """The partitions without an error in an answer, and what is committed there, if anything is."""
    return {
        TopicPartition(str(topic.name), int(item.partition_index)): None
        if item.committed_offset < 0
        else OffsetAndMetadata(
            int(item.committed_offset), item.metadata or "", int(getattr(item, "committed_leader_epoch", -1))
        )
        for topic in message.topics
        for item in topic.partitions
        if item.error_code is ErrorCode.none
    }


async def commit_offsets(
    cluster: Cluster,
    sender: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    version_min: int = 0,
    retention_ms: int | None = None,
    retries: Retries | None = None,
) -> None:
    """Commit offsets outside any transaction. Raises BrokerRefused, RetriesExhausted."""
    require_offsets(offsets)
    request = commit_request(sender, offsets, version_min=version_min)
    if retention_ms is not None:
        fields = {**request.fields, "retention_time": requests.milliseconds(retention_ms)}
        request = replace(request, fields=fields, version_max=OFFSET_COMMIT_RETENTION_VERSION_MAX)
    group = sender.group_id
    what = f"committing the offsets of group {group!r}"
    await ask_coordinator(cluster, CoordinatorKind.GROUP, group, request, first_partition_error, what, retries)


def require_offsets(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
    """Raise ValueError for what is no offset, as the constructor of Java's OffsetAndMetadata does: brokers store any number."""
    for partition, item in offsets.items():
        if item.offset < 0:
            raise ValueError(f"the offset to commit for {partition} is {item.offset}: it is not to be below 0")


def commit_request(
    sender: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, version_min: int = 0
) -> ApiRequest:
    if sender.group_instance_id is not None:
        version_min = max(version_min, OFFSET_COMMIT_INSTANCE_VERSION)
    return ApiRequest(
        requests.OFFSET_COMMIT,
        {
            "group_id": sender.group_id,
            "generation_id_or_member_epoch": sender.generation_id,
            "member_id": sender.member_id,
            "group_instance_id": sender.group_instance_id,
            "topics": committed_topics(offsets),
        },
        version_min=version_min,
    )


def committed_topics(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> list[dict[str, Any]]:
    """The topics of an OffsetCommit or TxnOffsetCommit request."""
    return [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": item.partition,
                    "committed_offset": offsets[item].offset,
                    "committed_leader_epoch": offsets[item].leader_epoch,
                    "committed_metadata": offsets[item].metadata,
                }
                for item in items
            ],
        }
        for topic, items in by_topic(offsets).items()
    ]


def first_partition_error(message: Any) -> ErrorCode:
    """The first error among the partitions of an answer."""
    errors = (item.error_code for topic in message.topics for item in topic.partitions)
    return next((error for error in errors if error is not ErrorCode.none), ErrorCode.none)


def _fetched_error(message: Any) -> ErrorCode:
    whole: ErrorCode = getattr(message, "error_code", ErrorCode.none)
    return whole if whole is not ErrorCode.none else first_partition_error(message)


OffsetReset: TypeAlias = OffsetSpec | timedelta | None
"""The start, the end, so long ago, or nowhere: that is an error."""


def parse_reset(value: str | timedelta) -> OffsetReset:
    """Read "earliest", "latest", "none" or how long ago. Raises ValueError."""
    if isinstance(value, timedelta):
        if value < timedelta(0):
            raise ValueError(f"auto_offset_reset is {value}: the time since when must not be negative")
        return value
    names: dict[str, OffsetReset] = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST, "none": None}
    if value not in names:
        raise ValueError(f"auto_offset_reset is {value!r}: earliest, latest, none or a timedelta is allowed")
    return names[value]


Placed = Callable[[Mapping[TopicPartition, int]], None]
"""Told of each partition's offset as soon as its leader has said it."""


async def reset_offsets(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    reset: OffsetSpec | timedelta,
    isolation_level: IsolationLevel,
    placed: Placed,
) -> None:
    """Raises BrokerRefused or RetriesExhausted."""
    since: int = int(reset) if isinstance(reset, OffsetSpec) else 0
    if isinstance(reset, timedelta):
        now_ms = await WallClock()
        since = max(0, now_ms - int(reset.total_seconds() * 1000))
    await find_offsets(cluster, dict.fromkeys(partitions, since), isolation_level, placed)


async def find_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], isolation_level: IsolationLevel, placed: Placed
) -> None:
    """The offset of each time in ms or OffsetSpec; the end, where no record is as late.

    Raises BrokerRefused or RetriesExhausted.
    """
    late: set[TopicPartition] = set()

    def take(answers: Mapping[TopicPartition, OffsetAndTimestamp]) -> None:
        found = {partition: answer.offset for partition, answer in answers.items() if answer.offset >= 0}
        late.update(answers.keys() - found.keys())
        placed(found)

    def take_end(answers: Mapping[TopicPartition, OffsetAndTimestamp]) -> None:
        placed({partition: answer.offset for partition, answer in answers.items()})

    error: ClientError | None = None
    try:
        await list_offsets(cluster, wanted, isolation_level, take)
    except ClientError as one_of_them:
        error = one_of_them
    if late:
        await list_offsets(cluster, dict.fromkeys(late, OffsetSpec.LATEST), isolation_level, take_end)
    if error is not None:
        raise error
