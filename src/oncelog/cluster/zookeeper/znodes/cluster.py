"""Znodes of the cluster as a whole, of its brokers and of its settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from urllib.parse import quote, unquote_plus

from oncelog.cluster.zookeeper.znodes import paths
from oncelog.cluster.zookeeper.znodes.json_text import INT_MAX, JsonObject, ZnodeError, encode, in_order_of_java

BROKER_VERSION = 5
STRING_BYTES_MAX = 2**15 - 1
"""The longest string in a message."""
PLAINTEXT = "PLAINTEXT"
SECURITY_PROTOCOLS = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
DEFAULT_ENTITY = "<default>"
CONFIG_VERSION = 1
CHANGE_VERSION = 2

CONTROLLER_VERSION = 2
NO_KRAFT_EPOCH = -1
PRODUCER_ID_BLOCK_VERSION = 1
PRODUCER_IDS_IN_A_BLOCK = 1000
_EPOCH = re.compile(rb"-?[0-9]{1,1000}")


def encode_cluster_id(cluster_id: str) -> bytes:
    return encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    """Raises ZnodeError with what to do: no broker starts without a cluster id."""
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
    """The controller's znode. `kraft_epoch` is -1, but for the controller of a migration."""

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
    """ENABLED if the cluster's inter.broker.protocol.version has feature levels at all (KIP-584)."""

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


@dataclass(frozen=True, slots=True)
class ListenerEndpoint:
    """Host and port of a listener. The name of a listener is in capitals."""

    listener: str
    host: str
    port: int
    security_protocol: str = PLAINTEXT

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokerZnode:
    """`features` are the lowest and highest level of each that the broker supports; ZooKeeper's Kafka writes none."""

    endpoints: tuple[ListenerEndpoint, ...]
    timestamp_ms: int
    rack: str | None = None
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    jmx_port: int = -1

    def encode(self) -> bytes:
        """Host and port are there for clients that know no endpoints, and those know PLAINTEXT only."""
        plain = next((one for one in self.endpoints if one.security_protocol == PLAINTEXT), None)
        features = {name: {"min_version": low, "max_version": high} for name, (low, high) in self.features.items()}
        rack = {"rack": self.rack} if self.rack is not None else {}
        return encode(
            {
                "features": features,
                "listener_security_protocol_map": {one.listener: one.security_protocol for one in self.endpoints},
                "endpoints": tuple(map(str, self.endpoints)),
                **rack,
                "jmx_port": self.jmx_port,
                "port": plain.port if plain is not None else -1,
                "host": plain.host if plain is not None else None,
                "version": BROKER_VERSION,
                "timestamp": str(self.timestamp_ms),
            }
        )


def decode_broker(broker_id: int, data: bytes) -> BrokerZnode:
    """Versions 1 to 5, and later ones that keep their fields. Raises ZnodeError."""
    found = JsonObject.parse(paths.broker(broker_id), data)
    version = found.int32("version")
    if version < 1:
        raise found.fail(f"there is no version {version}")
    if version == 1:
        endpoints: tuple[ListenerEndpoint, ...] = (
            ListenerEndpoint(PLAINTEXT, found.string("host"), found.int32("port")),
        )
    else:
        endpoints = _endpoints(found)
    rack = found.optional_string("rack")
    if any(len(text.encode()) > STRING_BYTES_MAX for text in (rack or "", *map(str, endpoints))):
        raise found.fail("that is too long to be told to anybody")
    return BrokerZnode(
        endpoints,
        found.long_in_string("timestamp") if found.has("timestamp") else -1,
        rack,
        found.optional_field("features").each(_levels),
        found.int32("jmx_port"),
    )


def _endpoints(found: JsonObject) -> tuple[ListenerEndpoint, ...]:
    protocols = dict(zip(SECURITY_PROTOCOLS, SECURITY_PROTOCOLS, strict=True))
    if found.has("listener_security_protocol_map"):
        named = found.field("listener_security_protocol_map").each(JsonObject.string)
        protocols = {listener.upper(): protocol.upper() for listener, protocol in named.items()}
    endpoints = []
    for text in found.strings("endpoints"):
        matched = _ENDPOINT.fullmatch(text)
        if matched is None:
            raise found.fail(f"{text!r} is no endpoint")
        listener, host, port = matched.groups()
        protocol = protocols.get(listener.upper())
        if protocol not in SECURITY_PROTOCOLS:
            raise found.fail(f"the listener {listener} has no security protocol that there is")
        endpoints.append(ListenerEndpoint(listener.upper(), host, found.number("a port", port), protocol))
    return tuple(endpoints)


def _levels(features: JsonObject, name: str) -> tuple[int, int]:
    levels = features.field(name)
    return levels.int32("min_version"), levels.int32("max_version")


def sanitize(name: str) -> str:
    """A name of a user or a client as a part of a path (Kafka's Sanitizer). Topics, brokers and addresses go as they are."""
    return quote(name, safe="").replace("~", "%7E")


def desanitize(name: str) -> str:
    return unquote_plus(name)


def encode_config(config: Mapping[str, str]) -> bytes:
    return encode({"version": CONFIG_VERSION, "config": {name: config[name] for name in in_order_of_java(config)}})


def decode_config(entity_type: str, entity: str, data: bytes) -> dict[str, str]:
    """Without data, or without settings, there are none. Raises ZnodeError."""
    return _decode(paths.config(entity_type, entity), data)


def decode_shared_settings(data: bytes) -> dict[str, str]:
    """Settings that all brokers share, encoded like those of an entity. Raises ZnodeError."""
    return _decode(paths.SHARED_SETTINGS, data)


def _decode(path: str, data: bytes) -> dict[str, str]:
    if not data:
        return {}
    return JsonObject.parse(path, data).optional_field("config").each(JsonObject.string)


@dataclass(frozen=True, slots=True)
class ConfigEntity:
    """An entity with settings. `entity` follows the kind in the path: for users also alice/clients/c%201."""

    entity_type: str
    entity: str

    def encode(self) -> bytes:
        return encode({"version": CHANGE_VERSION, "entity_path": f"{self.entity_type}/{self.entity}"})


def decode_config_change(name: str, data: bytes) -> ConfigEntity:
    """Versions 1 and 2; `name` is that of the notification below /config/changes. Raises ZnodeError."""
    found = JsonObject.parse(f"{paths.CONFIG_CHANGES}/{name}", data)
    match found.int32("version"):
        case 1:
            change = ConfigEntity(found.string("entity_type"), found.string("entity_name"))
        case 2:
            entity_type, slash, entity = found.string("entity_path").partition("/")
            if not slash:
                raise found.fail("its path names no entity")
            change = ConfigEntity(entity_type, entity)
        case version:
            raise found.fail(f"there is no version {version}")
    if change.entity_type not in paths.CONFIG_TYPES:
        raise found.fail(f"there are no settings of {change.entity_type}")
    return change
