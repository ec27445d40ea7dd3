"""The record of a group of the classic protocol: its last complete generation. Key type 2, byte for byte.

key     int16 version 2, string group
value   int16 version, string protocol type, int32 generation, string? protocol, string? leader,
        int64 time since when the group is in its state (v2), then each member:
        string member id, string? instance id (v3), string client id, string client host,
        int32 rebalance timeout (v1), int32 session timeout, bytes subscription, bytes assignment
        v4 is v3 with compact fields
null    there is no such group any more

Version 3 is written.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from oncelog.coordination.fields import FieldReader, nullable_string, sized_bytes, string
from oncelog.records import Record

KEY_VERSION = 2
WRITTEN_VERSION = 3
REBALANCE_TIMEOUT_VERSION, STATE_TIME_VERSION, INSTANCE_ID_VERSION, FLEXIBLE_VERSION = 1, 2, 3, 4
NO_TIME = -1

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_TIME_AND_COUNT = struct.Struct(">qi")
_TIMEOUTS = struct.Struct(">ii")


class StoredMember(NamedTuple):
    """A member of a generation. `subscription` is what it said for the protocol that was chosen."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupMetadataValue(NamedTuple):
    """A generation. An empty protocol type is that of a group which never had members; `state_ms` is -1 when not known."""

    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    state_ms: int = NO_TIME
    members: tuple[StoredMember, ...] = ()


class GroupMetadataRecord(NamedTuple):
    """The metadata of a group, None when the group is gone, and the time of the record."""

    group: str
    metadata: GroupMetadataValue | None
    timestamp_ms: int

    @property
    def news(self) -> str:
        """The line of the broker's log for this record."""
        if self.metadata is None:
            return "it is no more"
        return f"generation {self.metadata.generation} has {len(self.metadata.members)} members"


def encode_metadata(record: GroupMetadataRecord) -> Record:
    key = _INT16.pack(KEY_VERSION) + string(record.group)
    value = None if record.metadata is None else _encode_value(record.metadata)
    return Record(key, value, timestamp_ms=record.timestamp_ms)


def decode_metadata(group: str, record: Record) -> GroupMetadataRecord | None:
    """The record; None for an unknown version. Raises WireError for broken bytes."""
    if record.value is None:
        return GroupMetadataRecord(group, None, record.timestamp_ms)
    value = FieldReader(record.value)
    version = value.int16()
    if not 0 <= version <= FLEXIBLE_VERSION:
        return None
    metadata = _decode_flexible(value) if version == FLEXIBLE_VERSION else _decode_value(value, version)
    return GroupMetadataRecord(group, metadata, record.timestamp_ms)


def _encode_value(metadata: GroupMetadataValue) -> bytes:
    parts = [
        _INT16.pack(WRITTEN_VERSION),
        string(metadata.protocol_type),
        _INT32.pack(metadata.generation),
        nullable_string(metadata.protocol),
        nullable_string(metadata.leader),
        _TIME_AND_COUNT.pack(metadata.state_ms, len(metadata.members)),
    ]
    for member in metadata.members:
        parts += (
            string(member.member_id),
            nullable_string(member.instance_id),
            string(member.client_id),
            string(member.client_host),
            _TIMEOUTS.pack(member.rebalance_timeout_ms, member.session_timeout_ms),
            sized_bytes(member.subscription),
            sized_bytes(member.assignment),
        )
    return b"".join(parts)


def _decode_value(value: FieldReader, version: int) -> GroupMetadataValue:
    protocol_type, generation = value.string(), value.int32()
    protocol, leader = value.nullable_string(), value.nullable_string()
    state_ms = value.int64() if version >= STATE_TIME_VERSION else NO_TIME
    members = tuple(_decode_member(value, version) for _ in range(value.int32()))
    return GroupMetadataValue(protocol_type, generation, protocol, leader, state_ms, members)


def _decode_member(value: FieldReader, version: int) -> StoredMember:
    member_id = value.string()
    instance_id = value.nullable_string() if version >= INSTANCE_ID_VERSION else None
    client_id, client_host = value.string(), value.string()
    rebalance_ms = value.int32() if version >= REBALANCE_TIMEOUT_VERSION else -1
    session_ms = value.int32()
    subscription, assignment = value.sized_bytes(), value.sized_bytes()
    return _member(member_id, instance_id, client_id, client_host, rebalance_ms, session_ms, subscription, assignment)


def _decode_flexible(value: FieldReader) -> GroupMetadataValue:
    protocol_type, generation = value.compact_string(), value.int32()
    protocol, leader = value.nullable_compact_string(), value.nullable_compact_string()
    state_ms = value.int64()
    members = tuple(_decode_flexible_member(value) for _ in range(value.unsigned_varint() - 1))
    return GroupMetadataValue(protocol_type, generation, protocol, leader, state_ms, members)


def _decode_flexible_member(value: FieldReader) -> StoredMember:
    member_id, instance_id = value.compact_string(), value.nullable_compact_string()
    client_id, client_host = value.compact_string(), value.compact_string()
    rebalance_ms, session_ms = value.int32(), value.int32()
    subscription, assignment = value.compact_bytes(), value.compact_bytes()
    value.tagged_fields()
    return _member(member_id, instance_id, client_id, client_host, rebalance_ms, session_ms, subscription, assignment)


def _member(
    member_id: str,
    instance_id: str | None,
    client_id: str,
    client_host: str,
    rebalance_ms: int,
    session_ms: int,
    subscription: bytes,
    assignment: bytes,
) -> StoredMember:
    # Records from before there were rebalance timeouts have none: the session timeout was that, too.
    timeout_ms = session_ms if rebalance_ms < 0 else rebalance_ms
    return StoredMember(
        member_id, instance_id, client_id, client_host, timeout_ms, session_ms, subscription, assignment
    )
