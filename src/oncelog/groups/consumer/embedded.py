"""What consumers of the classic protocol say to each other, which a group of both protocols has to understand.

subscription    int16 version, string[] topics, bytes? user data, v1 (string topic, int32[] partitions)[] owned,
                v2 int32 generation, v3 string? rack
assignment      int16 version, (string topic, int32[] partitions)[], bytes? user data
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from oncelog.coordination.fields import FieldReader, string
from oncelog.groups.consumer.assignment import Assignment, by_topic
from oncelog.groups.topics import KnownTopics
from oncelog.wire import WireError

OWNED_VERSION, GENERATION_VERSION, RACK_VERSION = 1, 2, 3

_VERSION_AND_COUNT = struct.Struct(">hi")
_INT32 = struct.Struct(">i")
T = TypeVar("T")
Named = tuple[tuple[str, int], ...]
"""Partitions by the names of their topics."""


@dataclass(frozen=True, slots=True)
class EmbeddedSubscription:
    version: int
    topics: frozenset[str]
    owned: Named = ()
    rack: str | None = None


def read_subscription(data: bytes) -> EmbeddedSubscription | None:
    """None for bytes that are no subscription."""
    value = FieldReader(data)
    try:
        version, topics = value.int16(), frozenset(_array(value, value.string))
        _user_data(value)
        owned = _read_named(value) if version >= OWNED_VERSION else ()
        if version >= GENERATION_VERSION:
            value.int32()
        rack = value.nullable_string() if version >= RACK_VERSION else None
    except WireError:
        return None
    return EmbeddedSubscription(version, topics, owned, rack or None)


def read_assignment(data: bytes) -> Named | None:
    """None for bytes that are no assignment, or of an assignor that says more than which partitions it gives."""
    if not data:
        return ()
    value = FieldReader(data)
    try:
        value.int16()
        named = _read_named(value)
        return None if _user_data(value) else named
    except WireError:
        return None


def write_assignment(version: int, partitions: Iterable[tuple[str, list[int]]]) -> bytes:
    named = list(partitions)
    parts = [_VERSION_AND_COUNT.pack(version, len(named))]
    for topic, indexes in named:
        parts += (string(topic), _INT32.pack(len(indexes)), *map(_INT32.pack, indexes))
    return b"".join((*parts, _INT32.pack(-1)))


def assignment_of(version: int, assignment: Assignment, topics: KnownTopics) -> bytes:
    """What a member that speaks this version is told of partitions whose topics are there."""
    named = ((topics.with_id(topic_id), indexes) for topic_id, indexes in by_topic(assignment).items())
    return write_assignment(version, ((topic.name, indexes) for topic, indexes in named if topic is not None))


def by_id(named: Named, topics: KnownTopics) -> Assignment:
    """Those whose topics are there."""
    found = ((topics.named(name), index) for name, index in named)
    return frozenset((topic.topic_id, index) for topic, index in found if topic is not None)


def _read_named(value: FieldReader) -> Named:
    def topic() -> list[tuple[str, int]]:
        name = value.string()
        return [(name, index) for index in _array(value, value.int32)]

    return tuple(partition for partitions in _array(value, topic) for partition in partitions)


def _array(value: FieldReader, read: Callable[[], T]) -> list[T]:
    return [read() for _ in range(value.int32())]


def _user_data(value: FieldReader) -> bytes:
    size_bytes = value.int32()
    return value.raw(size_bytes) if size_bytes > 0 else b""
