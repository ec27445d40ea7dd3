"""State of a follower towards the leader of one partition, and the steps for its log.

`TRANSITIONS` is the whole state machine: a move that is not in it is a bug, not an answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple
from uuid import UUID

NO_EPOCH = -1


class FetchReplicaState(Enum):
    """Kafka's names. FAILED is one of Kafka's `failedPartitions`: it waits for the next LeaderAndIsr."""

    TRUNCATING = "Truncating"
    FETCHING = "Fetching"
    FAILED = "failed"


# (from, to) -> what moves a partition along that edge.
TRANSITIONS: dict[tuple[FetchReplicaState, FetchReplicaState], str] = {
    (FetchReplicaState.TRUNCATING, FetchReplicaState.FETCHING): "the log has nothing that the leader's has not",
    (
        FetchReplicaState.TRUNCATING,
        FetchReplicaState.TRUNCATING,
    ): "the leader did not know the epoch, and is asked about the one before",
    (FetchReplicaState.TRUNCATING, FetchReplicaState.FAILED): "the leader has a newer epoch, or the log failed",
    (FetchReplicaState.FETCHING, FetchReplicaState.FETCHING): "an answer is in the log, or what diverged is cut off",
    (FetchReplicaState.FETCHING, FetchReplicaState.FAILED): "the leader has a newer epoch, or the log failed",
}


@dataclass(frozen=True, slots=True)
class FetchState:
    """`leader_epoch` is the one that LeaderAndIsr told; `last_fetched_epoch` that of the log's last batch, -1 without one.

    Until `delayed_until_ms` the leader is not asked: the last answer was an error, and the delay is `delay_ms` long. `lag` is how
    far the log was behind the leader's high watermark; None until the first answer.
    """

    topic_id: UUID
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    state: FetchReplicaState
    delayed_until_ms: int = 0
    delay_ms: int = 0
    lag: int | None = None

    def is_ready_to_fetch(self, now_ms: int) -> bool:
        return self.state is FetchReplicaState.FETCHING and now_ms >= self.delayed_until_ms

    def is_ready_to_truncate(self, now_ms: int) -> bool:
        return self.state is FetchReplicaState.TRUNCATING and now_ms >= self.delayed_until_ms

    def moved(self, state: FetchReplicaState, fetch_offset: int, last_fetched_epoch: int) -> FetchState:
        assert (self.state, state) in TRANSITIONS, (self, state)
        return replace(self, state=state, fetch_offset=fetch_offset, last_fetched_epoch=last_fetched_epoch, delay_ms=0)

    def delayed(self, now_ms: int, delay_ms: int) -> FetchState:
        return replace(self, delayed_until_ms=now_ms + delay_ms, delay_ms=delay_ms)


class Append(NamedTuple):
    """Append the records with `PartitionLog.append_as_follower`."""

    records: bytes


class AdvanceHighWatermark(NamedTuple):
    offset: int


class AdvanceLogStart(NamedTuple):
    offset: int


class Truncate(NamedTuple):
    """Cut the log off. If that `is_complete`, it has nothing then that the leader's has not; else the leader is asked again.

    One below the high watermark is for a leader that was elected without having been in sync.
    """

    offset: int
    is_complete: bool
    is_below_high_watermark: bool


class BeginAgain(NamedTuple):
    """Be an empty log that begins at the offset."""

    offset: int


class AskOffsets(NamedTuple):
    """Ask the leader under this epoch where its log ends and where it begins (ListOffsets LATEST and EARLIEST)."""

    leader_epoch: int


Step = Append | AdvanceHighWatermark | AdvanceLogStart | Truncate | BeginAgain | AskOffsets
