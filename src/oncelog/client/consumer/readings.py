"""Partitions under way: how far each is, what was asked for, what was answered, and which batches of that are visible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from typing_extensions import Buffer

from oncelog.client.errors import ClientError
from oncelog.client.net.flows import Now, PendingRequest
from oncelog.client.net.retry import Backoff
from oncelog.client.net.settings import RetryPolicy
from oncelog.client.values import Address, TopicPartition
from oncelog.records import BatchHeader, ControlType, batches, read_control


def visible_batches(fetched: FetchedBatches) -> Iterator[tuple[Buffer, int, BatchHeader]]:
    """Every batch as (chunk, position, header), control batches included, without those of aborted transactions.

    A producer's transactional batches are aborted from the first offset of an aborted transaction to its ABORT marker.
    """
    coming = list(fetched.aborted)
    aborted: set[int] = set()
    for chunk in fetched.chunks:
        for position, header in batches(chunk):
            while coming and coming[0][1] <= header.last_offset:
                aborted.add(coming.pop(0)[0])
            if header.is_control:
                if header.producer_id in aborted and is_abort(chunk, position):
                    aborted.remove(header.producer_id)
            elif header.is_transactional and header.producer_id in aborted:
                continue
            yield chunk, position, header


def is_abort(chunk: Buffer, position: int) -> bool:
    marker = read_control(chunk, position)
    return marker is not None and marker.control is ControlType.ABORT


@dataclass(frozen=True, slots=True)
class FetchedBatches:
    """One partition's part of an answer: chunks of whole record batches, and the offsets of the log.

    The first batch may begin before the offset asked for, and control batches and the batches of aborted transactions
    are among them. `aborted` names, sorted, the (producer id, first offset) of each aborted transaction.
    """

    partition: TopicPartition
    chunks: tuple[Buffer, ...]
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...]
    leader_epoch: int
    """The leader epoch of the last batch; -1 where there is none."""


class Reading:
    """The position in one partition, and the time since which reading it fails."""

    __slots__ = (
        "backoff",
        "cause",
        "end_offset",
        "failing_since_ms",
        "leader_epoch",
        "position",
        "refused_by",
        "topic_id",
    )

    def __init__(self, position: int, end_offset: int | None) -> None:
        self.position = position
        self.end_offset = end_offset
        self.leader_epoch = -1
        self.topic_id: UUID | None = None
        """The topic id of the last answer."""
        self.backoff = Backoff()
        self.cause: ClientError | None = None
        self.failing_since_ms = float("inf")
        self.refused_by: tuple[Address, int] | None = None
        """The leader, with its epoch, that does not have the position."""

    @property
    def is_at_its_end(self) -> bool:
        return self.end_offset is not None and self.position >= self.end_offset

    async def fail(self, cause: ClientError, policy: RetryPolicy) -> None:
        self.cause = cause
        self.failing_since_ms = min(self.failing_since_ms, await Now())
        await self.backoff.fail(policy)

    def succeed(self, leader_epoch: int) -> None:
        if leader_epoch >= 0:
            self.leader_epoch = leader_epoch
        self.cause = None
        self.failing_since_ms = float("inf")
        self.refused_by = None
        self.backoff.succeed()


class SentFetch(NamedTuple):
    """A request in flight: the offsets of its partitions, and the topic ids, where they are known."""

    pending: PendingRequest
    positions: dict[TopicPartition, int]
    topic_ids: dict[TopicPartition, UUID | None]

    def partition(self, topic: Any, index: int) -> TopicPartition:
        """The partition that a part of the answer is about."""
        name = getattr(topic, "topic", None)
        if name is None:
            name = next((item.topic for item, topic_id in self.topic_ids.items() if topic_id == topic.topic_id), "")
        return TopicPartition(str(name), index)
