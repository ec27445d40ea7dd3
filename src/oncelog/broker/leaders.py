"""The leader of a partition, for its clients: their idea of its epoch (KIP-320), and where it has gone (KIP-951)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

from oncelog.broker.request import Request
from oncelog.broker.storage.partition import Partition, ReplicaRole
from oncelog.broker.storage.topics import Topics
from oncelog.broker.view import ClusterNode, ClusterView
from oncelog.wire import ErrorCode, construct

UNTOLD = -1
"""The leader epoch of a replica that no controller has spoken of, and of a client without an idea."""


def epoch_problem(partition: Partition, client_epoch: int, *, only_from_leader: bool = True) -> ErrorCode | None:
    """The error for a client that is not served from this broker's log, which may be a follower's where not `only_from_leader`.

    KAFKA_STORAGE_ERROR where nobody can read it; FENCED_LEADER_EPOCH for a client that is behind, UNKNOWN_LEADER_EPOCH for one
    ahead, also of a follower; NOT_LEADER_OR_FOLLOWER where another broker leads, or has the only replicas. In the order of Kafka's
    Partition.getLocalLog.
    """
    if partition.is_offline:
        return ErrorCode.kafka_storage_error
    if partition.role in (ReplicaRole.NONE, ReplicaRole.LEAVING) or partition.leader_epoch == UNTOLD:
        return ErrorCode.not_leader_or_follower
    if client_epoch not in (UNTOLD, partition.leader_epoch):
        is_behind = client_epoch < partition.leader_epoch
        return ErrorCode.fenced_leader_epoch if is_behind else ErrorCode.unknown_leader_epoch
    if only_from_leader and partition.role is not ReplicaRole.LEADER:
        return ErrorCode.not_leader_or_follower
    return None


class MovedLeaders:
    """The fields of one answer that name the leader to a client that has come to the wrong broker.

    `errors` are those with which the leader is named; none in versions that cannot name it.
    """

    def __init__(self, topics: Topics, view: ClusterView, request: Request, errors: Collection[ErrorCode]) -> None:
        self._topics = topics
        self._types = request.types
        self._view = view
        self._listener = request.connection.listener
        self._errors = errors
        self._nodes: dict[int, ClusterNode] = {}

    def current(self, topic: str | UUID, index: int, error: ErrorCode) -> dict[str, Any]:
        """The field of a partition's part of the answer that tells its leader, if it is to."""
        if error not in self._errors:
            return {}
        found = self._topics.with_id(topic) if isinstance(topic, UUID) else self._topics.named(topic)
        partition = None if found is None else found.partition(index)
        if partition is None:
            return {}
        view = self._view.at(self._listener)
        known = view.leadership(partition)
        node = view.broker(known.leader)
        if node is not None:
            self._nodes[node.node_id] = node
        leader = self._types.LeaderIdAndEpoch(leader_id=known.leader, leader_epoch=known.leader_epoch)
        return {"current_leader": leader}

    def endpoints(self) -> dict[str, Any]:
        """The field of the whole answer that says where they are."""
        if not self._nodes:
            return {}
        return {
            "node_endpoints": tuple(
                construct(
                    self._types.NodeEndpoint, node_id=node.node_id, host=node.host, port=node.port, rack=node.rack
                )
                for node in self._nodes.values()
            )
        }
