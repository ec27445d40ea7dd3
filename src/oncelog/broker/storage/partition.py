"""One partition of a topic: its log, and those who wait for it to grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple
from uuid import UUID

from oncelog.broker.slices import Slices
from oncelog.broker.storage.leading import Leading, NotLeading, SoleReplica
from oncelog.broker.view import UNKNOWN
from oncelog.coordination import Promise
from oncelog.environment import DiskError
from oncelog.log import Appended, DataDirectory, LogDigest, LogPoints, Origin, PartitionLog, Refused
from oncelog.records import BatchHeader, ControlType
from oncelog.wire import ErrorCode


class UnopenedLog(NamedTuple):
    """A damaged log as a start found and left it. All but its directory and `damage` is what was known of it, and the
    checkpoints go on saying that. What it has is durable.

    Without a `damage` it is a new one, whose disk failed.
    """

    directory: str
    topic_id: UUID
    points: LogPoints
    aborted: LogDigest
    durable_end: int
    gaps_below: int
    damage: str | None


class MarkerGuard:
    """Says whether a transaction of a producer may have ended in a partition since the guard was made, and so what became of it.

    `error` is invalid_txn_state if it has ended, not_leader_or_follower if it may have ended under another leader.
    """

    __slots__ = ("_guards", "error", "partition", "producer_id")

    def __init__(self, guards: list[MarkerGuard], partition: tuple[str, int], producer_id: int) -> None:
        self._guards = guards
        self.partition = partition
        self.producer_id = producer_id
        self.error = ErrorCode.none
        guards.append(self)

    def end(self) -> None:
        self._guards.remove(self)


class ReplicaRole(Enum):
    """The role of a broker for a partition. One that is alone leads every partition."""

    LEADER = auto()
    FOLLOWER = auto()
    """It has a replica, and follows the leader if there is one."""
    LEAVING = auto()
    """It has a replica that is being deleted."""
    NONE = auto()


_LEADER, _FOLLOWER, _NONE = ReplicaRole.LEADER, ReplicaRole.FOLLOWER, ReplicaRole.NONE
"""Python 3.11 takes ten times as long to find a member in its class, and each batch asks several times."""


WOKEN_AT_ONCE = 50


class Waking(Enum):
    """Wakes a crowd that waits for a partition to move."""

    NOT = "nobody is being woken"
    UNDER_WAY = "each is woken once"
    ONCE_MORE = "the partition has moved since: each is woken once more"


class Partition:
    """`leading` knows which replicas are in sync, and so how far the high watermark may move.

    One with a `damage`, or in a log directory that is offline, is offline: nobody reads or writes it. It has no `log` if a
    start found the damage, and neither `log` nor `directory` where the broker has no replica. `failed` is told of a disk that
    fails it, and raises what the broker cannot go on with. `wakes` are for crowds alone.
    """

    __slots__ = (
        "_failed",
        "_guards",
        "_wakes",
        "_waking",
        "_watchers",
        "damage",
        "directory",
        "index",
        "leader_epoch",
        "leadership",
        "leading",
        "log",
        "role",
        "topic",
        "unopened",
    )

    directory: DataDirectory
    log: PartitionLog

    def __init__(
        self,
        topic: str,
        index: int,
        leader_epoch: int,
        failed: Callable[[Partition, DiskError], None],
        wakes: Slices,
    ) -> None:
        self.topic = topic
        self.index = index
        self.leader_epoch = leader_epoch
        self.leadership = UNKNOWN
        self.role = ReplicaRole.NONE
        self.leading: Leading = NotLeading(self)
        self._guards: list[MarkerGuard] = []
        self._failed = failed
        self._wakes = wakes
        self._waking = Waking.NOT
        self.unopened: UnopenedLog | None = None
        self.damage: str | None = None
        self._watchers: dict[Callable[[], None], None] = {}

    def host(self, log: PartitionLog | UnopenedLog, directory: DataDirectory, role: ReplicaRole) -> None:
        """Have a replica from now on."""
        assert self.role is ReplicaRole.NONE, f"{self} has a replica here"
        self.role = role
        if role is ReplicaRole.LEADER:
            self.leading = SoleReplica(self)
        self.directory = directory
        if isinstance(log, UnopenedLog):
            self.unopened, self.damage = log, log.damage
        else:
            self.log = log
            log.durability.on_acknowledged = self._acknowledged

    def leave(self) -> None:
        """Have no replica any more."""
        self.role = ReplicaRole.NONE
        self.unopened = self.damage = None
        del self.directory
        if hasattr(self, "log"):
            del self.log

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
        if self.problem is not None:
            return self.refused(self.problem)
        if origin is Origin.COORDINATOR:
            # Coordinators write with acks=all, as Kafka's do: what nobody can acknowledge is not begun.
            refused = self.leading.refuses()
            if refused is not None:
                return refused
        try:
            result = self.log.append(
                batch, header, origin, verified=verified, first_sequence_must_be_zero=first_sequence_must_be_zero
            )
        except DiskError as error:
            self._failed(self, error)
            return self.refused(ErrorCode.kafka_storage_error)
        if isinstance(result, Appended) and not result.duplicate:
            self._grown()
        return result

    def guard(self, producer_id: int) -> MarkerGuard:
        """It is broken by the next marker of the producer, and by another leader; `end` it."""
        return MarkerGuard(self._guards, (self.topic, self.index), producer_id)

    def resign(self) -> None:
        """Lead no more: from now on markers are copied from another leader, and nobody looks at each."""
        self.role = ReplicaRole.FOLLOWER
        self.leading = NotLeading(self)
        self.log.follow()
        for guard in self._guards:
            guard.error = ErrorCode.not_leader_or_follower

    def append_marker(
        self,
        control: ControlType,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        transaction_version: int,
        timestamp_ms: int,
    ) -> Appended | Refused:
        if self.problem is not None:
            return self.refused(self.problem)
        try:
            result = self.log.append_marker(
                control, producer_id, producer_epoch, coordinator_epoch, transaction_version, timestamp_ms
            )
        except DiskError as error:
            self._failed(self, error)
            return self.refused(ErrorCode.kafka_storage_error)
        if isinstance(result, Appended):
            for guard in self._guards:
                if guard.producer_id == producer_id:
                    guard.error = ErrorCode.invalid_txn_state
            self._grown()
        return result

    @property
    def is_offline(self) -> bool:
        return self.role is not _NONE and (self.damage is not None or self.directory.is_offline)

    @property
    def is_readable(self) -> bool:
        """True if there is a replica here, of a leader or a follower, whose log can be used."""
        return self.role in (_LEADER, _FOLLOWER) and not self.is_offline

    @property
    def problem(self) -> ErrorCode | None:
        """Why this broker has no answer that takes the partition's log; None if it leads it and can read it."""
        if self.role is _LEADER and self.damage is None and not self.directory.is_offline:
            return None
        return ErrorCode.kafka_storage_error if self.is_offline else ErrorCode.not_leader_or_follower

    @property
    def why_offline(self) -> str:
        return self.damage or self.directory.failure or ""

    def points(self) -> LogPoints:
        """The points of the log that a checkpoint has."""
        if self.unopened is not None:
            return self.unopened.points
        return LogPoints(
            self.log.durability.recovery_point,
            self.log.log_start_offset,
            self.log.high_watermark,
            self.log.compaction.cleaned_offset,
        )

    def digest(self) -> LogDigest:
        """The digest of the transaction indexes that a checkpoint has."""
        return self.log.digest() if self.unopened is None else self.unopened.aborted

    @property
    def topic_id(self) -> UUID:
        return self.log.topic_id if self.unopened is None else self.unopened.topic_id

    @property
    def low_watermark(self) -> int:
        """The low watermark of a partition that is led here: what is before it is gone for good."""
        return self.leading.low_watermark

    @property
    def is_behind_its_epoch(self) -> bool:
        """True while the high watermark of a new leader is below the start of its leader epoch: it may have been higher before."""
        return self.leading.epoch_start_offset > self.log.high_watermark

    def limit_offset(self, isolation_level: int) -> int:
        """The offset below which a reader of this isolation level may read."""
        return self.log.last_stable_offset if isolation_level else self.log.high_watermark

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back each time records or the last stable offset may have moved, until `unwatch`."""
        self._watchers[callback] = None

    def unwatch(self, callback: Callable[[], None]) -> None:
        self._watchers.pop(callback, None)

    def wake(self) -> None:
        """Wake those who wait within this call; a crowd, which may wait for more than there is, in slices."""
        if len(self._watchers) <= WOKEN_AT_ONCE:
            for callback in tuple(self._watchers):
                callback()
            return
        is_under_way = self._waking is not Waking.NOT
        self._waking = Waking.ONCE_MORE
        if not is_under_way:
            self._wakes.run(self._wake_crowd())

    def _wake_crowd(self) -> Iterator[None]:
        """However often the partition has moved meanwhile, each is called once more."""
        while self._waking is Waking.ONCE_MORE:
            self._waking = Waking.UNDER_WAY
            for callback in tuple(self._watchers):
                if callback in self._watchers:
                    callback()
                yield
        self._waking = Waking.NOT

    def answer(self, waiting: Sequence[tuple[Promise[ErrorCode], ErrorCode]]) -> None:
        """Answer those who wait for replicas within this call; a crowd, each of which may have more to write, in slices."""
        told = _told(waiting)
        if len(waiting) > WOKEN_AT_ONCE:
            self._wakes.run(told)
        else:
            for _ in told:
                pass

    def refused(self, problem: ErrorCode) -> Refused:
        if problem is ErrorCode.kafka_storage_error:
            return Refused(problem, f"{self} is offline: {self.why_offline}")
        return Refused(problem, f"{self} is led by another broker, or by none")

    def _grown(self) -> None:
        self.leading.grown()
        if self._watchers:
            self.wake()

    def _acknowledged(self) -> None:
        if self.role is _LEADER and self.log.high_watermark < self.log.durability.acknowledged_offset:
            self._grown()


def _told(waiting: Sequence[tuple[Promise[ErrorCode], ErrorCode]]) -> Iterator[None]:
    for one, error in waiting:
        one.resolve(error)
        yield
