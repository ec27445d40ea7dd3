"""One partition of a topic: its log, and those who wait for it to grow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from oncelog.log import Appended, LogDigest, LogPoints, Origin, PartitionLog, Refused
from oncelog.records import BatchHeader, ControlType


@dataclass(frozen=True, slots=True)
class UnopenedLog:
    """A damaged log as a start found and left it. `points` and `aborted` are what the checkpoints say, and go on saying."""

    directory: str
    topic_id: UUID
    points: LogPoints
    aborted: LogDigest | None
    damage: str


class Partition:
    """Has one replica, so what is appended is at once below the high watermark.

    One with a `damage` is offline: nobody reads or writes it. It has no `log` if a start found the damage.
    """

    __slots__ = ("_watchers", "damage", "index", "leader_epoch", "log", "topic", "unopened")

    def __init__(self, topic: str, index: int, leader_epoch: int, log: PartitionLog | UnopenedLog) -> None:
        self.topic = topic
        self.index = index
        self.leader_epoch = leader_epoch
        self.unopened: UnopenedLog | None = None
        self.damage: str | None = None
        if isinstance(log, UnopenedLog):
            self.unopened, self.damage = log, log.damage
        else:
            self.log = log
        self._watchers: dict[Callable[[], None], None] = {}

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    def append(
        self,
        batch: bytes,
        header: BatchHeader,
        origin: Origin,
        *,
        verified: bool = False,
        first_sequence_must_be_zero: bool = False,
    ) -> Appended | Refused:
        result = self.log.append(
            batch, header, origin, verified=verified, first_sequence_must_be_zero=first_sequence_must_be_zero
        )
        if isinstance(result, Appended) and not result.duplicate:
            self._grown()
        return result

    def append_marker(
        self,
        control: ControlType,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        transaction_version: int,
        timestamp_ms: int,
    ) -> Appended | Refused:
        result = self.log.append_marker(
            control, producer_id, producer_epoch, coordinator_epoch, transaction_version, timestamp_ms
        )
        if isinstance(result, Appended):
            self._grown()
        return result

    @property
    def is_offline(self) -> bool:
        return self.damage is not None

    def points(self) -> LogPoints:
        """What a checkpoint has to say of the log."""
        if self.unopened is not None:
            return self.unopened.points
        return LogPoints(
            self.log.recovery_point, self.log.log_start_offset, self.log.high_watermark, self.log.cleaned_offset
        )

    def digest(self) -> tuple[UUID, LogDigest | None]:
        """The topic's id, and what a checkpoint has to say of the transaction indexes."""
        if self.unopened is not None:
            return self.unopened.topic_id, self.unopened.aborted
        return self.log.topic_id, self.log.digest()

    def limit_offset(self, isolation_level: int) -> int:
        """The offset below which a reader of this isolation level may read."""
        return self.log.last_stable_offset if isolation_level else self.log.high_watermark

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back each time records or the last stable offset may have moved, until `unwatch`."""
        self._watchers[callback] = None

    def unwatch(self, callback: Callable[[], None]) -> None:
        self._watchers.pop(callback, None)

    def wake(self) -> None:
        for callback in tuple(self._watchers):
            callback()

    def _grown(self) -> None:
        self.log.advance_high_watermark(self.log.log_end_offset)
        if self._watchers:
            self.wake()
