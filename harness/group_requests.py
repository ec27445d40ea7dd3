"""The requests of the classic group protocol, as fields, whichever way they are then sent."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

JOIN, SYNC, HEARTBEAT, LEAVE = 9, 5, 4, 5
SESSION_MS, REBALANCE_MS = 10_000, 60_000


def subscription(*topics: str) -> bytes:
    """A consumer's subscription, version 0 of its protocol."""
    named = b"".join(struct.pack(">h", len(topic.encode())) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + named + struct.pack(">i", -1)


def join_fields(
    version: int,
    group: str,
    member_id: str = "",
    instance_id: str | None = None,
    protocols: Mapping[str, bytes] | None = None,
    protocol_type: str = "consumer",
    session_ms: int = SESSION_MS,
    rebalance_ms: int = REBALANCE_MS,
) -> dict[str, Any]:
    given = {"range": subscription("t")} if protocols is None else protocols
    fields: dict[str, Any] = {
        "group_id": group,
        "session_timeout": timedelta(milliseconds=session_ms),
        "member_id": member_id,
        "protocol_type": protocol_type,
        "protocols": [{"name": name, "metadata": metadata} for name, metadata in given.items()],
    }
    if version >= 1:
        fields["rebalance_timeout"] = timedelta(milliseconds=rebalance_ms)
    if version >= 5:
        fields["group_instance_id"] = instance_id
    if version >= 8:
        fields["reason"] = "a test"
    return fields


def sync_fields(
    version: int,
    group: str,
    member_id: str,
    generation: int,
    assignments: Mapping[str, bytes] | None = None,
    instance_id: str | None = None,
    protocol_type: str | None = "consumer",
    protocol: str | None = "range",
) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "group_id": group,
        "generation_id": generation,
        "member_id": member_id,
        "assignments": [
            {"member_id": member, "assignment": assignment} for member, assignment in (assignments or {}).items()
        ],
    }
    if version >= 3:
        fields["group_instance_id"] = instance_id
    if version >= 5:
        fields |= {"protocol_type": protocol_type, "protocol_name": protocol}
    return fields


def heartbeat_fields(
    version: int, group: str, member_id: str, generation: int, instance_id: str | None = None
) -> dict[str, Any]:
    fields: dict[str, Any] = {"group_id": group, "generation_id": generation, "member_id": member_id}
    return fields | {"group_instance_id": instance_id} if version >= 3 else fields


def leave_fields(version: int, group: str, leaving: Iterable[tuple[str, str | None]]) -> dict[str, Any]:
    if version < 3:
        ((member_id, _),) = leaving
        return {"group_id": group, "member_id": member_id}
    reason = {"reason": "a test"} if version >= 5 else {}
    members = [{"member_id": member_id, "group_instance_id": instance} | reason for member_id, instance in leaving]
    return {"group_id": group, "members": members}


def commit_fields(
    group: str,
    topic: str,
    offsets: Mapping[int, int],
    member_id: str = "",
    generation: int = -1,
    instance_id: str | None = None,
) -> dict[str, Any]:
    """OffsetCommit v7-9."""
    return {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": member_id,
        "group_instance_id": instance_id,
        "topics": [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": offset,
                        "committed_leader_epoch": -1,
                        "committed_metadata": "",
                    }
                    for partition, offset in offsets.items()
                ],
            }
        ],
    }
