"""An offset coordinator with its log: what a broker does with decisions and markers, and nothing else."""

from __future__ import annotations

from uuid import UUID

from oncelog.coordination import Decision
from oncelog.groups import (
    ANYONE,
    CommitContext,
    FetchedOffset,
    GroupCoordinator,
    OffsetRecord,
    OffsetToCommit,
    Timestamps,
    decode,
    encode,
)
from oncelog.records import Record
from oncelog.wire import ErrorCode
from tests.groups.decisions import Uuids, decided

GROUP = "my-group"
T0, T1 = ("t", 0), ("t", 1)
TOPIC_ID = UUID(int=7)


class OffsetLog:
    """One log for each partition of `__consumer_offsets`: records with their producer id, and markers."""

    def __init__(self, *, stores_topic_ids: bool = False) -> None:
        self.coordinator = GroupCoordinator(stores_topic_ids=stores_topic_ids)
        self.log: dict[int, list[tuple[Record, int] | tuple[bool, int]]] = {}
        self.now_ms = 1_700_000_000_000

    @property
    def now(self) -> Timestamps:
        return Timestamps(self.now_ms, 0.0)

    def apply(self, decision: Decision[OffsetRecord, object], producer_id: int = -1) -> None:
        for record in decision.records:
            home = self.coordinator.partition_for(record.group)
            log = self.log.setdefault(home, [])
            self.coordinator.replay(home, record, producer_id, producer_id >= 0, len(log))
            log.append((encode(record), producer_id))
        self.now_ms += 1

    def commit(
        self,
        *offsets: OffsetToCommit,
        group: str = GROUP,
        member: CommitContext = ANYONE,
        retention_ms: int = -1,
    ) -> tuple[ErrorCode, ...]:
        commit = self.coordinator.commit_offsets
        decision = decided(self.coordinator, Uuids(), lambda: commit(group, member, offsets, self.now, retention_ms))
        self.apply(decision)
        return decision.answer

    def commit_in_transaction(
        self, producer_id: int, *offsets: OffsetToCommit, group: str = GROUP, member: CommitContext = ANYONE
    ) -> tuple[ErrorCode, ...]:
        commit = self.coordinator.transactional_commit
        decision = decided(self.coordinator, Uuids(), lambda: commit(group, member, offsets, self.now_ms))
        self.apply(decision, producer_id)
        return decision.answer

    def end(self, producer_id: int, committed: bool, group: str = GROUP) -> None:
        home = self.coordinator.partition_for(group)
        self.coordinator.replay_marker(home, producer_id, committed)
        self.log.setdefault(home, []).append((committed, producer_id))

    def fetch(self, group: str = GROUP, stable: bool = False) -> dict[tuple[str, int], int]:
        """The offsets that a reader of every committed partition is given."""
        view = self.coordinator.offsets_of(group, stable)
        return {partition: view.fetched(partition).offset for partition in sorted(view.committed)}

    def fetch_one(self, partition: tuple[str, int], group: str = GROUP, stable: bool = True) -> FetchedOffset:
        return self.coordinator.offsets_of(group, stable).fetched(partition)

    def reread(self) -> GroupCoordinator:
        """What a new process makes of the log."""
        reader = GroupCoordinator()
        for home, entries in self.log.items():
            for offset, (entry, producer_id) in enumerate(entries):
                if isinstance(entry, bool):
                    reader.replay_marker(home, producer_id, entry)
                    continue
                record = decode(entry)
                assert record is not None
                reader.replay(home, record, producer_id, producer_id >= 0, offset)
        return reader


def at(
    partition: tuple[str, int],
    offset: int,
    metadata: str | None = None,
    leader_epoch: int = -1,
    topic_id: UUID = TOPIC_ID,
) -> OffsetToCommit:
    topic, index = partition
    return OffsetToCommit(topic, topic_id, index, offset, leader_epoch, metadata)
