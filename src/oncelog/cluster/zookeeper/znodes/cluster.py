"""What there is once in a cluster: its id, its controller, its features, the producer ids that were given out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from oncelog.cluster.zookeeper.znodes import paths
from oncelog.cluster.zookeeper.znodes.json_text import INT_MAX, JsonObject, ZnodeError, encode

CONTROLLER_VERSION = 2
NO_KRAFT_EPOCH = -1
PRODUCER_ID_BLOCK_VERSION = 1
PRODUCER_IDS_IN_A_BLOCK = 1000
_EPOCH = re.compile(rb"-?[0-9]{1,1000}")


def encode_cluster_id(cluster_id: str) -> bytes:
    return encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    """Raises ZnodeError, and says what to do: no broker starts without it."""
    try:
        return JsonObject.parse(paths.CLUSTER_ID, data).string("id")
    except ZnodeError:
        why = (
            f"write back {encode_cluster_id('ID').decode()}, where ID is what meta.properties of any broker of the cluster has as "
            "cluster.id=, or delete it if the cluster has no broker yet"
        )
        raise ZnodeError(paths.CLUSTER_ID, data, why) from None


@dataclass(frozen=True, slots=True)
class ControllerZnode:
    """Who is the controller. `kraft_epoch` is only that of a migration's controller; without one it is -1."""

    broker_id: int
    timestamp_ms: int
    kraft_epoch: int = NO_KRAFT_EPOCH

    def encode(self) -> bytes:
        return encode(
            {
                "version": CONTROLLER_VERSION,
                "brokerid": self.broker_id,
                "timestamp": str(self.timestamp_ms),
                "kraftControllerEpoch": self.kraft_epoch,
            }
        )


def decode_controller(data: bytes) -> ControllerZnode:
    """Versions 1 and 2. Raises ZnodeError."""
    found = JsonObject.parse(paths.CONTROLLER, data)
    timestamp_ms = found.long_in_string("timestamp") if found.has("timestamp") else -1
    return ControllerZnode(
        found.int32("brokerid"), timestamp_ms, found.int32("kraftControllerEpoch", default=NO_KRAFT_EPOCH)
    )


def encode_controller_epoch(epoch: int) -> bytes:
    return str(epoch).encode()


def decode_controller_epoch(data: bytes) -> int:
    """Raises ZnodeError."""
    if not _EPOCH.fullmatch(data):
        raise ZnodeError(paths.CONTROLLER_EPOCH, data, "that is no number")
    if int(data) >= INT_MAX:
        raise ZnodeError(paths.CONTROLLER_EPOCH, data, "there is no epoch after it, and no controller can have it")
    return int(data)


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """The ids of the last block that was given out, and to which broker. Both ends are in it."""

    broker_id: int
    first: int
    last: int

    def encode(self) -> bytes:
        return encode(
            {
                "version": PRODUCER_ID_BLOCK_VERSION,
                "broker": self.broker_id,
                "block_start": str(self.first),
                "block_end": str(self.last),
            }
        )


def decode_producer_id_block(data: bytes) -> ProducerIdBlock | None:
    """None where no block was given out yet. Raises ZnodeError."""
    if not data:
        return None
    found = JsonObject.parse(paths.PRODUCER_ID_BLOCK, data)
    return ProducerIdBlock(
        found.int32("broker"), found.long_in_string("block_start"), found.long_in_string("block_end")
    )


class FeatureStatus(IntEnum):
    """Whether the cluster's inter.broker.protocol.version knows feature levels at all (KIP-584)."""

    DISABLED = 0
    ENABLED = 1


@dataclass(frozen=True, slots=True)
class FeatureZnode:
    """The level of each feature that the cluster uses. Version 1 is of clusters before Kafka 3.3."""

    features: Mapping[str, int] = field(default_factory=dict)
    status: FeatureStatus = FeatureStatus.ENABLED
    version: int = 2

    def encode(self) -> bytes:
        lowest = self.version == 1
        return encode(
            {
                "features": {
                    name: {"max_version_level": level} | ({"min_version_level": level} if lowest else {})
                    for name, level in self.features.items()
                },
                "version": self.version,
                "status": self.status.value,
            }
        )


def decode_feature(data: bytes) -> FeatureZnode:
    """Versions 1 and 2. Raises ZnodeError."""
    found = JsonObject.parse(paths.FEATURE, data)
    version, status = found.int32("version"), found.int32("status")
    if version not in (1, 2):
        raise found.fail(f"there is no version {version}")
    if status not in tuple(FeatureStatus):
        raise found.fail(f"there is no status {status}")
    levels = found.field("features").each(JsonObject.field)
    features = {name: one.int32("max_version_level") for name, one in levels.items()}
    lowest = {name: one.int32("min_version_level") if version == 1 else 1 for name, one in levels.items()}
    for name, level in features.items():
        if not 1 <= lowest[name] <= level:
            raise found.fail(f"the levels of {name} are none")
    return FeatureZnode(features, FeatureStatus(status), version)
