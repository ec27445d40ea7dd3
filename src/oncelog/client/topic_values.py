"""Topics and partitions as Metadata describes them.

They hold error codes, which are slow to load with the rest of the wire; most of Spark's processes need only `values`.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from oncelog.wire import ErrorCode


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition as Metadata describes it; `leader` is -1 while there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    error: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True)
class TopicDescription:
    name: str
    topic_id: UUID | None
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]
    error: ErrorCode = ErrorCode.none
