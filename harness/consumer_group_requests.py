"""The requests of consumer groups (KIP-848), as fields, whichever way they are then sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

HEARTBEAT, DESCRIBE = 1, 1
REBALANCE_MS = 60_000
UNCHANGED = -1

Owned = Mapping[UUID, Iterable[int]]


def beat_fields(
    version: int,
    group: str,
    member_id: str,
    epoch: int,
    *,
    topics: Iterable[str] | None = None,
    owned: Owned | None = None,
    regex: str | None = None,
    instance_id: str | None = None,
    rack: str | None = None,
    assignor: str | None = None,
    rebalance_ms: int = UNCHANGED,
) -> dict[str, Any]:
    """ConsumerGroupHeartbeat: what is left out is as it was."""
    fields: dict[str, Any] = {
        "group_id": group,
        "member_id": member_id,
        "member_epoch": epoch,
        "instance_id": instance_id,
        "rack_id": rack,
        "rebalance_timeout": timedelta(milliseconds=rebalance_ms),
        "subscribed_topic_names": None if topics is None else list(topics),
        "server_assignor": assignor,
        "topic_partitions": None
        if owned is None
        else [{"topic_id": topic, "partitions": list(indexes)} for topic, indexes in owned.items()],
    }
    return fields | {"subscribed_topic_regex": regex} if version >= 1 else fields


def join_fields(version: int, group: str, member_id: str, topics: Iterable[str] | None, **more: Any) -> dict[str, Any]:
    """The first heartbeat of a member."""
    return beat_fields(
        version, group, member_id, 0, topics=topics, **{"owned": {}, "rebalance_ms": REBALANCE_MS} | more
    )


def assigned(answer: Any) -> dict[UUID, list[int]] | None:
    """What an answer gives the member; None where it goes on with what it has."""
    if answer.assignment is None:
        return None
    return {topic.topic_id: sorted(topic.partitions) for topic in answer.assignment.topic_partitions}


def commit_fields(
    version: int,
    group: str,
    topic: tuple[str, UUID],
    offsets: Mapping[int, int],
    member_id: str,
    epoch: int,
    instance_id: str | None = None,
) -> dict[str, Any]:
    """OffsetCommit v7-10 of a topic, which the last of them names by its id."""
    partitions = [
        {
            "partition_index": partition,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        for partition, offset in offsets.items()
    ]
    named = {"topic_id": topic[1]} if version >= 10 else {"name": topic[0]}
    return {
        "group_id": group,
        "generation_id_or_member_epoch": epoch,
        "member_id": member_id,
        "group_instance_id": instance_id,
        "topics": [{**named, "partitions": partitions}],
    }
