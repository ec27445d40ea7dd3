"""The records of `__consumer_offsets` that hold a consumer group (KIP-848). A record without a value takes back its key's.

key     int16 kind, string group, then for 5, 7 and 8 string member id, for 16 string regular expression
value   int16 version 0, then fields in the compact form, with tagged fields after each struct:
        3   int32 group epoch; tag 0: int64 hash of what is known of the subscribed topics
        4   what brokers before 4.1 kept of topics: read and left alone, only its tombstone is written
        5   string? instance id, string? rack, string client id, string client host, string[] topics,
            string? regular expression, int32 rebalance timeout, string? assignor;
            tag 0: of a member of the classic protocol: int32 session timeout, (string name, bytes metadata)[]
        6   int32 epoch of the target assignment; tag 0: int64 time when it was worked out
        7   (uuid topic, int32[] partitions)[]
        8   int32 member epoch, int32 the one before, int8 state,
            (uuid topic, int32[] partitions; tag 0: int32[] the epoch in which each was assigned)[] twice: those that
            the member may use, and those that it has to give up
        16  string[] topics that match, int64 version of the topics, int64 time of the look
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeVar

from oncelog.coordination.fields import (
    FieldReader,
    compact_array,
    compact_bytes,
    compact_string,
    nullable_compact_string,
    string,
    tagged_fields,
)
from oncelog.groups.consumer.assignment import Assignment, Owned, Partition, by_topic
from oncelog.groups.consumer.member import ClassicFacts, Progress, Subscription
from oncelog.groups.consumer.state import MemberState
from oncelog.records import Record
from oncelog.wire import WireError, unsigned_varint

VALUE_VERSION = 0
TAG = 0

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_PROGRESS = struct.Struct(">hiib")
_VERSION_AND_EPOCH = struct.Struct(">hi")
_TIMES = struct.Struct(">qq")
_NO_TAGS = tagged_fields({})

T = TypeVar("T")


class Kind(IntEnum):
    """The type of a record, which its key begins with."""

    GROUP_EPOCH = 3
    PARTITION_METADATA = 4
    MEMBER = 5
    TARGET_EPOCH = 6
    TARGET = 7
    CURRENT = 8
    REGEX = 16


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that matched a regular expression, and when it was that they were looked at."""

    topics: frozenset[str]
    version: int
    resolved_ms: int


@dataclass(frozen=True, slots=True)
class GroupEpochRecord:
    """Without an epoch there is no such group any more."""

    group: str
    epoch: int | None
    metadata_hash: int
    timestamp_ms: int

    @property
    def news(self) -> str:
        """The line of the broker's log for this record."""
        return "it is no more" if self.epoch is None else f"it is at epoch {self.epoch}"


@dataclass(frozen=True, slots=True)
class PartitionMetadataTombstone:
    """Ends what an older broker kept of topics; written when a group ends, as Kafka does."""

    group: str
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class MemberRecord:
    group: str
    member_id: str
    subscription: Subscription | None
    timestamp_ms: int

    @property
    def news(self) -> str:
        """The line of the broker's log for this record."""
        return f"member {self.member_id} {'has left' if self.subscription is None else 'joined, or subscribes anew'}"


@dataclass(frozen=True, slots=True)
class TargetEpochRecord:
    group: str
    epoch: int | None
    assigned_ms: int
    timestamp_ms: int

    @property
    def news(self) -> str | None:
        """The line of the broker's log about it."""
        return None if self.epoch is None else f"its target assignment is computed for epoch {self.epoch}"


@dataclass(frozen=True, slots=True)
class TargetRecord:
    group: str
    member_id: str
    target: Assignment | None
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class CurrentAssignmentRecord:
    group: str
    member_id: str
    progress: Progress | None
    timestamp_ms: int

    @property
    def news(self) -> str | None:
        """The line of the broker's log about it."""
        if self.progress is None:
            return None
        revoking = len(self.progress.revoking)
        also = f" and is to give up {revoking}" if revoking else ""
        return (
            f"member {self.member_id} has {len(self.progress.owned)} partitions{also}, at epoch {self.progress.epoch}"
        )


@dataclass(frozen=True, slots=True)
class RegexRecord:
    group: str
    regex: str
    resolved: ResolvedRegex | None
    timestamp_ms: int


ConsumerRecord = (
    GroupEpochRecord
    | PartitionMetadataTombstone
    | MemberRecord
    | TargetEpochRecord
    | TargetRecord
    | CurrentAssignmentRecord
    | RegexRecord
)


# --- writing


def encode_consumer(record: ConsumerRecord) -> Record:
    kind, named, value = _parts(record)
    key = b"".join((_INT16.pack(kind), string(record.group), *map(string, named)))
    return Record(key, value, timestamp_ms=record.timestamp_ms)


def _parts(record: ConsumerRecord) -> tuple[Kind, tuple[str, ...], bytes | None]:
    """The kind of a record, what its key names beside the group, and its value."""
    match record:
        case GroupEpochRecord(epoch=epoch):
            return Kind.GROUP_EPOCH, (), _epoch(epoch, record.metadata_hash)
        case PartitionMetadataTombstone():
            return Kind.PARTITION_METADATA, (), None
        case MemberRecord(subscription=subscription):
            return Kind.MEMBER, (record.member_id,), None if subscription is None else _subscription(subscription)
        case TargetEpochRecord(epoch=epoch):
            return Kind.TARGET_EPOCH, (), _epoch(epoch, record.assigned_ms)
        case TargetRecord(target=target):
            return Kind.TARGET, (record.member_id,), None if target is None else _target(target)
        case CurrentAssignmentRecord(progress=progress):
            return Kind.CURRENT, (record.member_id,), None if progress is None else _progress(progress)
        case RegexRecord(resolved=resolved):
            return Kind.REGEX, (record.regex,), None if resolved is None else _resolved(resolved)


def _epoch(epoch: int | None, tagged: int) -> bytes | None:
    if epoch is None:
        return None
    # A tagged field that has its default is left out.
    return _VERSION_AND_EPOCH.pack(VALUE_VERSION, epoch) + tagged_fields({TAG: _INT64.pack(tagged)} if tagged else {})


def _subscription(subscription: Subscription) -> bytes:
    classic = subscription.classic
    return b"".join(
        (
            _INT16.pack(VALUE_VERSION),
            nullable_compact_string(subscription.instance_id),
            nullable_compact_string(subscription.rack),
            compact_string(subscription.client_id),
            compact_string(subscription.client_host),
            compact_array(map(compact_string, sorted(subscription.topics))),
            nullable_compact_string(subscription.regex),
            _INT32.pack(subscription.rebalance_timeout_ms),
            nullable_compact_string(subscription.assignor),
            # A nullable struct: 1 before one that is there.
            _NO_TAGS if classic is None else tagged_fields({TAG: b"\1" + _classic(classic)}),
        )
    )


def _classic(classic: ClassicFacts) -> bytes:
    protocols = (compact_string(name) + compact_bytes(metadata) + _NO_TAGS for name, metadata in classic.protocols)
    return _INT32.pack(classic.session_timeout_ms) + compact_array(protocols) + _NO_TAGS


def _target(target: Assignment) -> bytes:
    topics = (topic_id.bytes + _numbers(indexes) + _NO_TAGS for topic_id, indexes in by_topic(target).items())
    return _INT16.pack(VALUE_VERSION) + compact_array(topics) + _NO_TAGS


def _progress(progress: Progress) -> bytes:
    head = _PROGRESS.pack(VALUE_VERSION, progress.epoch, progress.previous_epoch, progress.state.value)
    return head + _owned(progress.owned) + _owned(progress.revoking) + _NO_TAGS


def _owned(owned: Owned) -> bytes:
    # By their numbers, as in by_topic.
    topics: dict[int, dict[int, int]] = {}
    for (topic_id, index), epoch in owned.items():
        topics.setdefault(topic_id.int, {})[index] = epoch
    written = []
    for number, epochs in sorted(topics.items()):
        indexes = sorted(epochs)
        tagged = tagged_fields({TAG: _numbers([epochs[index] for index in indexes])})
        written.append(number.to_bytes(16, "big") + _numbers(indexes) + tagged)
    return compact_array(written)


def _resolved(resolved: ResolvedRegex) -> bytes:
    topics = compact_array(map(compact_string, sorted(resolved.topics)))
    return _INT16.pack(VALUE_VERSION) + topics + _TIMES.pack(resolved.version, resolved.resolved_ms) + _NO_TAGS


def _numbers(numbers: list[int]) -> bytes:
    return unsigned_varint(len(numbers) + 1) + struct.pack(f">{len(numbers)}i", *numbers)


# --- reading


def decode_consumer(number: int, key: FieldReader, record: Record) -> ConsumerRecord | None:
    """`key` is past its kind. None for a value that is not known, or no matter. Raises WireError for broken bytes."""
    kind, group, timestamp_ms = Kind(number), key.string(), record.timestamp_ms
    if kind is Kind.PARTITION_METADATA:
        return None
    named = "" if kind in (Kind.GROUP_EPOCH, Kind.TARGET_EPOCH) else key.string()
    value = None if record.value is None else FieldReader(record.value)
    if value is not None and value.int16() != VALUE_VERSION:
        return None
    match kind:
        case Kind.GROUP_EPOCH:
            epoch, metadata_hash = _read_epoch(value)
            return GroupEpochRecord(group, epoch, metadata_hash, timestamp_ms)
        case Kind.MEMBER:
            return MemberRecord(group, named, _read(value, _read_subscription), timestamp_ms)
        case Kind.TARGET_EPOCH:
            epoch, assigned_ms = _read_epoch(value)
            return TargetEpochRecord(group, epoch, assigned_ms, timestamp_ms)
        case Kind.TARGET:
            return TargetRecord(group, named, _read(value, _read_target), timestamp_ms)
        case Kind.CURRENT:
            return CurrentAssignmentRecord(group, named, _read(value, _read_progress), timestamp_ms)
        case _:
            return RegexRecord(group, named, _read(value, _read_resolved), timestamp_ms)


def _read(value: FieldReader | None, read: Callable[[FieldReader], T]) -> T | None:
    return None if value is None else read(value)


def _read_epoch(value: FieldReader | None) -> tuple[int | None, int]:
    if value is None:
        return None, 0
    epoch, tags = value.int32(), value.tagged_fields()
    return epoch, FieldReader(tags[TAG]).int64() if TAG in tags else 0


def _read_subscription(value: FieldReader) -> Subscription:
    subscription = Subscription(
        instance_id=value.nullable_compact_string(),
        rack=value.nullable_compact_string(),
        client_id=value.compact_string(),
        client_host=value.compact_string(),
        topics=frozenset(value.compact_array(value.compact_string)),
        regex=value.nullable_compact_string(),
        rebalance_timeout_ms=value.int32(),
        assignor=value.nullable_compact_string(),
    )
    tags = value.tagged_fields()
    if TAG not in tags:
        return subscription
    return replace(subscription, classic=_read_classic(FieldReader(tags[TAG])))


def _read_classic(value: FieldReader) -> ClassicFacts | None:
    if value.int8() < 0:
        return None

    def protocol() -> tuple[str, bytes]:
        read = value.compact_string(), value.compact_bytes()
        value.tagged_fields()
        return read

    facts = ClassicFacts(value.int32(), value.compact_array(protocol))
    value.tagged_fields()
    return facts


def _read_target(value: FieldReader) -> Assignment:
    def topic() -> list[Partition]:
        topic_id, indexes = value.uuid(), value.compact_array(value.int32)
        value.tagged_fields()
        return [(topic_id, index) for index in indexes]

    topics = value.compact_array(topic)
    value.tagged_fields()
    return frozenset(partition for partitions in topics for partition in partitions)


def _read_progress(value: FieldReader) -> Progress:
    epoch, previous, state = value.int32(), value.int32(), value.int8()
    known = {state.value: state for state in MemberState}
    owned, revoking = _read_owned(value, epoch), _read_owned(value, epoch)
    value.tagged_fields()
    return Progress(epoch, previous, known.get(state, MemberState.UNKNOWN), owned, revoking)


def _read_owned(value: FieldReader, member_epoch: int) -> Owned:
    def topic() -> list[tuple[Partition, int]]:
        topic_id, indexes, tags = value.uuid(), value.compact_array(value.int32), value.tagged_fields()
        # Brokers before 4.2 do not say since when: since the member's epoch at the latest.
        epochs: tuple[int, ...] = (max(member_epoch, 0),) * len(indexes)
        if TAG in tags:
            reader = FieldReader(tags[TAG])
            epochs = reader.compact_array(reader.int32)
        if len(epochs) != len(indexes):
            raise WireError("a member's partitions and their epochs differ in number")
        return [((topic_id, index), since) for index, since in zip(indexes, epochs, strict=True)]

    return dict(pair for topic in value.compact_array(topic) for pair in topic)


def _read_resolved(value: FieldReader) -> ResolvedRegex:
    resolved = ResolvedRegex(frozenset(value.compact_array(value.compact_string)), value.int64(), value.int64())
    value.tagged_fields()
    return resolved
