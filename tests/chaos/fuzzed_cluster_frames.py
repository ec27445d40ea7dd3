"""Bytes that a client may send to a member of a cluster: also what only brokers say to each other, with epochs that are taken."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from oncelog.cluster.apis import CLUSTER_APIS
from tests.chaos.fuzzed_frames import RandomFrames

BETWEEN_BROKERS = frozenset({4, 5, 6, 7, 56, 67})
"""With them whoever sends them takes leaders and replicas from everybody: there is no authorizer."""
BROKER_IDS = frozenset(
    {"broker_id", "broker_ids", "controller_id", "isr", "leader", "new_isr", "replica_id", "replicas"}
    | {"adding_replicas", "removing_replicas", "offline_replicas"}
)


def of_clients() -> dict[int, range]:
    return _versions(CLUSTER_APIS.keys() - BETWEEN_BROKERS)


def between_brokers() -> dict[int, range]:
    """Those, and what else brokers ask each other, or tell apart by who asks."""
    return _versions(BETWEEN_BROKERS | {1, 2, 23, 24, 27})


def _versions(keys: frozenset[int] | set[int]) -> dict[int, range]:
    return {key: range(CLUSTER_APIS[key].minimum, CLUSTER_APIS[key].maximum + 1) for key in sorted(keys)}


class RandomClusterFrames(RandomFrames):
    """Most of what they say of brokers is true: who is wrong there is refused at once, and the rest of it is not looked at."""

    def __init__(
        self, seed: int, topic_ids: Sequence[uuid.UUID], apis: Mapping[int, range], broker_ids: Sequence[int]
    ) -> None:
        super().__init__(seed, topic_ids, (), apis)
        self._broker_ids = broker_ids
        self.controller_epoch = 1
        self.broker_epochs: Sequence[int] = (-1,)

    def _value(self, name: str, kind: Any, wire_type: str | None, api_key: int) -> Any:
        is_true = self.chance.random() < 0.9
        if is_true and name == "controller_epoch":
            return self.controller_epoch
        if is_true and name in ("broker_epoch", "replica_epoch"):
            return self.chance.choice((-1, *self.broker_epochs))
        if is_true and name in BROKER_IDS:
            return self.chance.choice((*self._broker_ids, max(self._broker_ids) + 1))
        if is_true and name in ("leader_epoch", "partition_epoch"):
            return self.chance.randint(0, 12)
        return super()._value(name, kind, wire_type, api_key)
