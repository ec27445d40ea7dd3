"""Ledger of committed batches: a batch below a leader's high watermark stays in every replica, byte for byte.

In-sync replicas have it at once: this makes elections safe, and is checked even without an election.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from oncelog.broker.storage.partition import Partition, ReplicaRole
from oncelog.log import PartitionLog
from oncelog.records import batches
from oncelog.simulation.broker_node import SimulationFailure
from oncelog.simulation.cluster.conditions import IN_SYNC_MIN
from oncelog.simulation.cluster.member_node import MemberNode
from oncelog.simulation.cluster.metadata import ClusterMetadata

READ_BYTES = 1024 * 1024
LEADER = ReplicaRole.LEADER


class LoggedBatch(NamedTuple):
    base_offset: int
    next_offset: int
    data: bytes


@dataclass(slots=True)
class _SeenLeader:
    """A leader as it was looked at last."""

    epoch: int
    high_watermark: int
    last_stable_offset: int


@dataclass(slots=True)
class _Committed:
    """One partition: the batches below the highest high watermark, and the leader of each epoch."""

    batches: list[LoggedBatch] = field(default_factory=list)
    leaders: dict[int, int] = field(default_factory=dict)
    newest_epoch: int = -1
    last_stable_offset: int = 0
    """The highest that a leader had."""

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0


class Ledger:
    def __init__(self, nodes: Sequence[MemberNode], metadata: ClusterMetadata) -> None:
        self._nodes = {node.broker_id: node for node in nodes}
        self._metadata = metadata
        self._looked_at_zxid = -1
        self._committed: dict[tuple[str, int], _Committed] = {}
        self._led: dict[Partition, _SeenLeader] = {}
        """A partition is one broker's, and of one start of it."""

    def look_at(self, node: MemberNode) -> None:
        """After an event of a broker. Raise SimulationFailure for what does not hold."""
        if self._looked_at_zxid != self._metadata.zxid:
            self._looked_at_zxid = self._metadata.zxid
            self._look_at_in_sync_sets()
        core = node.core
        if core is None or not node.is_up or not hasattr(core, "topics"):
            return
        for topic in core.topics:
            for partition in topic.partitions:
                if partition.role is LEADER and not partition.is_offline:
                    self._look_at_leader(node, partition)

    def _look_at_leader(self, node: MemberNode, partition: Partition) -> None:
        log = partition.log
        known = self._led.get(partition)
        if known is None or known.epoch != partition.leader_epoch:
            known = self._elected(node, partition)
        high, stable = log.high_watermark, log.last_stable_offset
        if high == known.high_watermark and stable == known.last_stable_offset:
            return
        what = f"{partition}, led by {node.name} under epoch {partition.leader_epoch}"
        _must(
            known.high_watermark <= high, f"{what}: the high watermark goes back from {known.high_watermark} to {high}"
        )
        _must(
            known.last_stable_offset <= stable,
            f"{what}: the last stable offset goes back from {known.last_stable_offset} to {stable}",
        )
        _must(
            stable <= high <= log.log_end_offset, f"{what}: {stable}, {high} and {log.log_end_offset} are out of order"
        )
        self._check_stable(what, partition)
        self._take(what, partition, known.high_watermark, high)
        if high > known.high_watermark:
            self._check_replicas(what, partition, high)
        known.high_watermark, known.last_stable_offset = high, stable

    def _elected(self, node: MemberNode, partition: Partition) -> _SeenLeader:
        committed = self._committed.setdefault((partition.topic, partition.index), _Committed())
        epoch, log = partition.leader_epoch, partition.log
        other = committed.leaders.setdefault(epoch, node.broker_id)
        _must(other == node.broker_id, f"{partition}: brokers {other} and {node.broker_id} lead under epoch {epoch}")
        if epoch > committed.newest_epoch:
            committed.newest_epoch = epoch
            what = f"{partition}: {node.name}, elected under epoch {epoch},"
            _must(
                log.log_end_offset >= committed.end,
                f"{what} ends at {log.log_end_offset}, and {committed.end} was reached",
            )
            self._take(what, partition, 0, committed.end)
        known = self._led[partition] = _SeenLeader(epoch, log.high_watermark, log.last_stable_offset)
        self._take(f"{partition} on {node.name}", partition, 0, log.high_watermark)
        self._check_stable(f"{partition}, led by {node.name} under epoch {epoch}", partition)
        return known

    def _check_stable(self, what: str, partition: Partition) -> None:
        """A new leader may not know yet how far the one before had come. It says nothing of its end until it has all of that."""
        committed = self._committed[partition.topic, partition.index]
        log = partition.log
        before, stable = committed.last_stable_offset, log.last_stable_offset
        if (
            partition.role is LEADER
            and partition.leader_epoch == committed.newest_epoch
            and log.high_watermark >= partition.leading.epoch_start_offset
        ):
            _must(
                before <= stable, f"{what}: the last stable offset is {stable}, and that of another leader was {before}"
            )
        committed.last_stable_offset = max(before, stable)

    def _take(self, what: str, partition: Partition, start: int, stop: int) -> None:
        """Compares batches with those that were committed before, and adds new ones."""
        committed = self._committed[partition.topic, partition.index]
        for batch in logged(partition.log, start, stop):
            if batch.base_offset >= committed.end:
                _must(batch.base_offset == committed.end, f"{what} has no batch at {committed.end}")
                committed.batches.append(batch)
                continue
            place = bisect_left(committed.batches, batch.base_offset, key=_base_offset)
            before = committed.batches[min(place, len(committed.batches) - 1)]
            _must(before == batch, f"{what} has another batch at offset {batch.base_offset} than was committed there")

    def _check_replicas(self, what: str, partition: Partition, high_watermark: int) -> None:
        """Checks an advanced high watermark: the in-sync replicas have all below it, and are at least min.insync.replicas."""
        topic, index = partition.topic, partition.index
        state = self._metadata.state(topic, index)
        if state is not None:
            self._check_in_sync(what, topic, index, state.isr, high_watermark)
        ends = [node.log_end_offset(topic, index) for node in self._nodes.values()]
        _must(
            sum(end >= high_watermark for end in ends) >= IN_SYNC_MIN,
            f"{what}: the high watermark is {high_watermark}, and the logs of the brokers end at {ends}",
        )

    def _look_at_in_sync_sets(self) -> None:
        for (topic, index), committed in self._committed.items():
            state = self._metadata.state(topic, index)
            if state is not None and committed.end > 0:
                what = f"{topic}-{index}, led by broker {state.leader} under epoch {state.leader_epoch}"
                self._check_in_sync(what, topic, index, state.isr, committed.end)

    def _check_in_sync(self, what: str, topic: str, index: int, isr: Iterable[int], committed_end: int) -> None:
        for broker_id in isr:
            end = self._nodes[broker_id].log_end_offset(topic, index)
            _must(
                end >= committed_end,
                f"{what}: broker {broker_id} is in sync and ends at {end}, and {committed_end} was reached",
            )

    def check_complete(self, nodes: Iterable[MemberNode]) -> None:
        """Call it when every replica is in sync, and nothing is written."""
        for node in nodes:
            assert node.core is not None, "it is up"
            for partition in node.core.topics.partitions():
                if partition.role is ReplicaRole.NONE:
                    continue
                committed = self._committed.get((partition.topic, partition.index), _Committed())
                found = list(logged(partition.log, 0, partition.log.log_end_offset))
                what = f"{partition} on {node.name}"
                _must(
                    len(found) == len(committed.batches),
                    f"{what} has {len(found)} batches, and not {len(committed.batches)}",
                )
                for one, other in zip(found, committed.batches, strict=True):
                    _must(
                        one == other, f"{what} has another batch at offset {one.base_offset} than was committed there"
                    )


def logged(log: PartitionLog, offset: int, stop: int) -> Iterator[LoggedBatch]:
    """The batches from the one that has the offset to where it stops. Raise SimulationFailure where there is none."""
    while offset < stop:
        at = offset
        data, offset = log.read(at, READ_BYTES, stop)
        _must(offset > at, f"{log.directory} has nothing at offset {at}, and goes on to {stop}")
        view = memoryview(data)
        for position, header in batches(data):
            size_bytes = header.size_bytes
            yield LoggedBatch(header.base_offset, header.next_offset, bytes(view[position : position + size_bytes]))


def _base_offset(batch: LoggedBatch) -> int:
    return batch.base_offset


def _must(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise SimulationFailure(otherwise)
