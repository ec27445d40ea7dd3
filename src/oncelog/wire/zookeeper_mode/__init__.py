"""What only the brokers of a cluster over ZooKeeper say to each other: Kafka 4 has these messages no more, nor has the codec.

They are written from the message definitions that Kafka 3.9 publishes, one module for a version, with the request and its
answer; what a version has not changed comes from the one before. The codec reads the types of the fields, so annotations
are not postponed. `inter.broker.protocol.version` says which version is sent: from 3.4 on, the last of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

LEADER_AND_ISR = 4
STOP_REPLICA = 5
UPDATE_METADATA = 6
CONTROLLED_SHUTDOWN = 7

VERSIONS: Mapping[int, range] = MappingProxyType(
    {
        LEADER_AND_ISR: range(5, 8),
        STOP_REPLICA: range(3, 5),
        UPDATE_METADATA: range(7, 9),
        CONTROLLED_SHUTDOWN: range(2, 4),
    }
)
"""The versions of each API key that are here."""
NAMES: Mapping[int, str] = MappingProxyType(
    {
        LEADER_AND_ISR: "leader_and_isr",
        STOP_REPLICA: "stop_replica",
        UPDATE_METADATA: "update_metadata",
        CONTROLLED_SHUTDOWN: "controlled_shutdown",
    }
)
