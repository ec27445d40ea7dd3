"""The partitions of the internal topics: which one owns a group or an id, and what a broker is to each.

A broker is the coordinator of the ids and groups whose partition it leads, once it has replayed that partition.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

from oncelog.wire import ErrorCode

IDS_REMEMBERED = 65_536
"""Java's hash of an id takes 3.4 µs in Python, and a transaction of one record needs it so often that it would cost the broker an
eighth more processor time."""


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 code units, in signed 32-bit arithmetic."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8) + units[position + 1]) & 0xFFFF_FFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


@lru_cache(IDS_REMEMBERED)
def partition_for(key: str, partition_count: int) -> int:
    """The partition that owns `key`; the smallest 32-bit integer has no absolute value and counts as 0."""
    value = java_string_hash(key)
    return 0 if value == -0x8000_0000 else abs(value) % partition_count


class CoordinatorState(Enum):
    """The state of this broker as coordinator of one partition. The names are those of Kafka's CoordinatorRuntime.

    `TRANSITIONS` is the whole state machine: a move that is not in it is a bug.
    """

    CLOSED = "Closed"
    """Another broker is the coordinator."""
    LOADING = "Loading"
    """The coordinator is replaying the partition."""
    ACTIVE = "Active"
    """The coordinator has replayed the partition, and answers."""
    FAILED = "Failed"
    """The broker leads the partition and cannot read it."""


CLOSED = CoordinatorState.CLOSED
LOADING = CoordinatorState.LOADING
ACTIVE = CoordinatorState.ACTIVE
FAILED = CoordinatorState.FAILED

# (from, to) -> what moves a partition along that edge.
TRANSITIONS: dict[tuple[CoordinatorState, CoordinatorState], str] = {
    (CLOSED, LOADING): "the broker becomes its leader",
    (LOADING, ACTIVE): "its log is replayed to the end",
    (LOADING, FAILED): "its log is damaged, or its log directory is offline",
    (LOADING, CLOSED): "the broker is its leader no more, or under a newer epoch",
    (ACTIVE, CLOSED): "the same, or its log directory fails",
    (FAILED, CLOSED): "the same",
}


def is_legal(before: CoordinatorState, after: CoordinatorState) -> bool:
    return (before, after) in TRANSITIONS


# As Kafka's TransactionStateManager and CoordinatorOperationExceptionHelper say it: no record of the client is too large.
_CLIENT_ERRORS = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
}


def client_error(error: ErrorCode) -> ErrorCode:
    """The error for the client when the coordinator's log refuses a record with `error`."""
    return _CLIENT_ERRORS.get(error, error)
