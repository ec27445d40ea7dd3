"""What a client is told when it is made."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.client.net.retry_policy import DEFAULT_RETRY, RetryPolicy
from oncelog.client.values import Address
from oncelog.security.values import PLAINTEXT, Security

DEFAULT_PORT = 9092


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Where the cluster is, who asks, how patient it is, and how its connections are secured.

    A request is given up after `request_timeout_ms`; a call that repeats requests gives up after `call_timeout_ms`.
    """

    bootstrap: tuple[Address, ...]
    client_id: str = "oncelog"
    request_timeout_ms: float = 30_000
    connect_timeout_ms: float = 10_000
    call_timeout_ms: float = 60_000
    security: Security = PLAINTEXT
    retry: RetryPolicy = DEFAULT_RETRY


def parse_addresses(bootstrap_servers: str) -> tuple[Address, ...]:
    """Read "host:port,host:port". The port is 9092 where none is given. Raises ValueError."""
    addresses = tuple(_parse_address(part.strip()) for part in bootstrap_servers.split(",") if part.strip())
    if not addresses:
        raise ValueError(f"no bootstrap server in {bootstrap_servers!r}")
    return addresses


def _parse_address(text: str) -> Address:
    host, separator, port = text.rpartition(":")
    if not separator or host.endswith(":") or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is not a host and a port")
    return Address(host, int(port))
