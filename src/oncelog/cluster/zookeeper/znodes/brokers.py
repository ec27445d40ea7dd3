"""The registration of a broker. Its znode is ephemeral, and its czxid is the broker epoch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from oncelog.cluster.zookeeper.znodes import paths
from oncelog.cluster.zookeeper.znodes.json_text import JsonObject, encode

BROKER_VERSION = 5
STRING_BYTES_MAX = 2**15 - 1
"""Of a string in a message."""
PLAINTEXT = "PLAINTEXT"
SECURITY_PROTOCOLS = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")


@dataclass(frozen=True, slots=True)
class ListenerEndpoint:
    """Where clients reach a listener. The name of a listener is in capitals."""

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
