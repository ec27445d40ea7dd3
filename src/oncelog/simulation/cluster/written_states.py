"""Checks of the partition states that controllers write: one controller writes at a time, and each epoch has one leader."""

from __future__ import annotations

from oncelog.cluster.zookeeper.znodes import PartitionStateZnode
from oncelog.simulation.broker_node import SimulationFailure
from oncelog.simulation.cluster.metadata import ClusterMetadata, TrackedPartition


class WrittenStates:
    def __init__(self, metadata: ClusterMetadata) -> None:
        self._metadata = metadata
        self._looked_at_zxid = -1
        self._states: dict[tuple[str, int], PartitionStateZnode] = {}

    def look(self) -> None:
        """After each event. Raise SimulationFailure for what does not hold."""
        if self._looked_at_zxid != self._metadata.zxid:
            self._looked_at_zxid = self._metadata.zxid
            for one in self._metadata.partitions():
                if one.state is not None:
                    self._take(one, one.state)

    def _take(self, one: TrackedPartition, state: PartitionStateZnode) -> None:
        key = one.topic, one.index
        before = self._states.get(key)
        if state == before:
            return
        self._states[key] = state
        name, newest = f"{one.topic}-{one.index}", self._metadata.controller_epoch()
        if state.controller_epoch != newest:
            raise SimulationFailure(
                f"{name}: a controller of epoch {state.controller_epoch} writes its state, and that of epoch {newest} "
                "has taken its place"
            )
        if before is None or (state.leader, state.leader_epoch) == (before.leader, before.leader_epoch):
            return
        if state.leader_epoch <= before.leader_epoch:
            raise SimulationFailure(
                f"{name}: broker {state.leader} is to lead under epoch {state.leader_epoch}, "
                f"and broker {before.leader} has led under epoch {before.leader_epoch}"
            )
