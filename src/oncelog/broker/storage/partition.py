"""One partition of a topic: its log, and those who wait for it to grow."""

from __future__ import annotations

from collections.abc import Callable

from oncelog.log import Appended, Origin, PartitionLog, Refused
from oncelog.records import BatchHeader, ControlType


class Partition:
    """Has one replica, so what is appended is at once below the high watermark."""

    __slots__ = ("_watchers", "index", "leader_epoch", "log", "topic")

    def __init__(self, topic: str, index: int, leader_epoch: int, log: PartitionLog) -> None:
        self.topic = topic
        self.index = index
        self.leader_epoch = leader_epoch
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
