"""The cluster's znodes, read directly from the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from oncelog.cluster.zookeeper.znodes import (
    PartitionStateZnode,
    decode_controller,
    decode_controller_epoch,
    decode_partition_state,
    decode_topic,
    paths,
)
from oncelog.simulation.broker_node import SimulationFailure
from oncelog.simulation.cluster.zookeeper import SimulatedEnsemble

# Everything is looked at after each event, and little of it has changed.
_partition_state = lru_cache(maxsize=4096)(decode_partition_state)
_topic = lru_cache(maxsize=256)(decode_topic)


@dataclass(frozen=True, slots=True)
class TrackedPartition:
    topic: str
    index: int
    replicas: tuple[int, ...]
    state: PartitionStateZnode | None
    """None where the controller has not made it yet."""


class ClusterMetadata:
    def __init__(self, ensemble: SimulatedEnsemble) -> None:
        self._ensemble = ensemble
        self._tree = ensemble.tree

    @property
    def zxid(self) -> int:
        """The id of the last transaction."""
        return self._ensemble.zxid

    def controller_epoch(self) -> int:
        """The epoch of the last elected controller."""
        node = self._tree.node(paths.CONTROLLER_EPOCH)
        assert node is not None, "a controller has written it before"
        return decode_controller_epoch(node.data)

    def state(self, topic: str, index: int) -> PartitionStateZnode | None:
        """The state of a partition; None before the controller has created it."""
        node = self._tree.node(paths.partition_state(topic, index))
        return None if node is None else _partition_state(topic, index, node.data)

    def broker_ids(self) -> set[int]:
        return set(map(int, self._children(paths.BROKER_IDS)))

    def controller_id(self) -> int:
        """-1 while there is none."""
        node = self._tree.node(paths.CONTROLLER)
        return -1 if node is None else decode_controller(node.data).broker_id

    def partitions(self) -> Iterator[TrackedPartition]:
        for topic in self._children(paths.TOPICS):
            node = self._tree.node(paths.topic(topic))
            assert node is not None, "it is among the children"
            for index, assigned in _topic(topic, node.data).partitions.items():
                yield TrackedPartition(topic, index, assigned.replicas, self.state(topic, index))

    def is_whole(self) -> bool:
        """True if every replica of every partition is in sync."""
        return all(one.state is not None and set(one.state.isr) == set(one.replicas) for one in self.partitions())

    def is_in_sync_anywhere(self, broker_id: int) -> bool:
        return any(one.state is not None and broker_id in one.state.isr for one in self.partitions())

    def is_alone_in_sync_anywhere(self, broker_id: int) -> bool:
        return any(one.state is not None and set(one.state.isr) == {broker_id} for one in self.partitions())

    def _children(self, path: str) -> list[str]:
        node = self._tree.node(path)
        return [] if node is None else sorted(node.children)


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
