"""Telling a client who has come to the wrong broker which one leads, so that it need not ask for metadata first (KIP-951)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from oncelog.wire import ErrorCode, construct

if TYPE_CHECKING:
    from collections.abc import Collection

    from oncelog.broker.request import Request
    from oncelog.broker.storage.topics import Topics
    from oncelog.broker.view import ClusterNode, ClusterView


class Needs(Protocol):
    """What of the broker is needed here."""

    topics: Topics
    view: ClusterView


class MovedLeaders:
    """Of one answer. `errors` are those with which the leader is told; none in versions that cannot tell it."""

    def __init__(self, broker: Needs, request: Request, errors: Collection[ErrorCode]) -> None:
        self._broker = broker
        self._types = request.types
        self._listener = request.connection.listener
        self._errors = errors
        self._nodes: dict[int, ClusterNode] = {}

    def current(self, topic: str | UUID, index: int, error: ErrorCode) -> dict[str, Any]:
        """The field of a partition's part of the answer that tells its leader, if it is to."""
        if error not in self._errors:
            return {}
        topics, view = self._broker.topics, self._broker.view.at(self._listener)
        found = topics.with_id(topic) if isinstance(topic, UUID) else topics.named(topic)
        partition = None if found is None else found.partition(index)
        if partition is None:
            return {}
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
