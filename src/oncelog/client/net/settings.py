"""The settings of a client. They are loaded before anything that knows the protocol."""

from __future__ import annotations

import re
from dataclasses import dataclass

from oncelog.client.values import Address
from oncelog.coordination.deadline import pause_range_ms
from oncelog.security.values import PLAINTEXT, Security


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Kafka's `retry.backoff.ms` and `retry.backoff.max.ms`."""

    backoff_ms: float = 20
    backoff_max_ms: float = 1_000
    growth: float = 2

    def __post_init__(self) -> None:
        if not 0 < self.backoff_ms <= self.backoff_max_ms:
            raise ValueError(
                f"retry_backoff_ms is {self.backoff_ms} and retry_backoff_max_ms {self.backoff_max_ms}: "
                "the first is to be above 0 and not above the second"
            )

    def pause_range_ms(self, failures: int) -> tuple[float, float]:
        """The bounds of the pause after so many failures in a row."""
        return pause_range_ms(failures, self.backoff_ms, self.backoff_max_ms, self.growth)


DEFAULT_RETRY = RetryPolicy()


DEFAULT_PORT = 9092
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
NO_PART_OF_A_HOST = re.compile(r"[\s;/@]")


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Bootstrap servers, client id, timeouts, pauses between retries, and the security of connections.

    A request is given up after `request_timeout_ms`; a call that repeats requests gives up after `call_timeout_ms`.
    """

    bootstrap: tuple[Address, ...]
    client_id: str = "oncelog"
    request_timeout_ms: float = 30_000
    connect_timeout_ms: float = 10_000
    call_timeout_ms: float = 60_000
    security: Security = PLAINTEXT
    retry: RetryPolicy = DEFAULT_RETRY


def parse_addresses(bootstrap_servers: str, security: Security | None = None) -> tuple[Address, ...]:
    """Read "host:port,host:port". The port is 9092 where none is given. Raises ValueError.

    A protocol may be in front of each, as librdkafka has it: "SASL_SSL://host:port". It has to be that of `security`.
    """
    parts = [part.strip() for part in bootstrap_servers.split(",") if part.strip()]
    addresses = tuple(_parse_address(_without_protocol(part, security)) for part in parts)
    if not addresses:
        raise ValueError(f"no bootstrap server in {bootstrap_servers!r}")
    return addresses


def _without_protocol(text: str, security: Security | None) -> str:
    protocol, separator, address = text.rpartition("://")
    if not separator:
        return text
    if protocol.upper() not in PROTOCOLS:
        raise ValueError(f"{text!r} begins with {protocol}://, and a protocol is one of {', '.join(PROTOCOLS)}")
    if security is not None and protocol.upper() != security.protocol:
        raise ValueError(f"{text!r} names {protocol.upper()}, and security.protocol is {security.protocol}")
    return address


def _parse_address(text: str) -> Address:
    host, separator, port = text.rpartition(":")
    if not separator or host.endswith(":") or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is not a host and a port")
    if NO_PART_OF_A_HOST.search(host):
        raise ValueError(f"{text!r} is not a host and a port; several of them have commas in between")
    return Address(host, int(port))
