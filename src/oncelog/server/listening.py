"""The listeners of a broker: their addresses, their sockets and their security."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from oncelog.broker import (
    Endpoint,
    ListenerSecurity,
    Settings,
    advertised_endpoints,
    check_inter_broker_listener,
    check_names_of_listeners,
    inter_broker_listener,
    listening_endpoints,
)

if TYPE_CHECKING:
    from ssl import SSLContext

    from oncelog.server.link_security import LinkSecurity

PLAINTEXT = "PLAINTEXT"
DEFAULT_LISTEN = "127.0.0.1:0"
EVERY_ADDRESS, EVERY_IPV4_ADDRESS = "::", "0.0.0.0"
IPV4_PREFIX = "::ffff:"
"""How a socket of both families names a peer that came over IPv4 (RFC 4291 §2.5.5.2)."""


def parse_address(listen: str) -> tuple[str, int]:
    """Split HOST:PORT. Raises ValueError."""
    host, separator, port = listen.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{listen!r} is not an address: give HOST:PORT, for example 127.0.0.1:9092")
    if host == "*":
        raise ValueError(f"{listen!r} is not an address: every address of the machine is [::]:{port}")
    return host.strip("[]") or "127.0.0.1", int(port)


def listeners_of(listen: str | None, settings: Settings) -> tuple[Endpoint, ...]:
    """The addresses to listen at. Without a host it is every address of the machine. Raises ValueError."""
    endpoints = listening_endpoints(settings)
    if listen is not None and (len(endpoints) > 1 or any(one.protocol != PLAINTEXT for one in endpoints)):
        raise ValueError(
            f"listeners={settings.text('listeners')} is not allowed beside --listen, which is one listener without protection"
        )
    advertised = advertised_endpoints(settings)
    if listen is not None or not endpoints:
        host, port = parse_address(DEFAULT_LISTEN if listen is None else listen)
        name = (*endpoints, *advertised, Endpoint(PLAINTEXT, host, port))[0].name
        endpoints = (Endpoint(name, host, port),)
        if any(one != Endpoint(name, one.host, one.port) for one in advertised):
            raise ValueError(f"advertised.listeners={settings.text('advertised.listeners')} needs these in listeners")
    check_names_of_listeners(settings, {endpoint.name for endpoint in endpoints})
    advertised = advertised or endpoints
    if settings.is_in_cluster:
        check_inter_broker_listener(settings, advertised)
    return endpoints


def security_of(settings: Settings, endpoint: Endpoint) -> ListenerSecurity:
    """Raises SettingError, which shows no secret."""
    if endpoint.protocol == PLAINTEXT:
        return ListenerSecurity()
    # Only now: it takes a while, and most brokers have no such listener.
    from oncelog.broker import security_of_listener

    return security_of_listener(settings, endpoint)


def context_of(security: ListenerSecurity) -> SSLContext | None:
    """Raises ValueError for a file or store that is no good."""
    if security.tls is None:
        return None
    # Only now: it takes a while, and most brokers have none.
    from oncelog.server.link_security import listener_context

    return listener_context(security)


def link_security(settings: Settings, endpoints: Sequence[Endpoint]) -> LinkSecurity | None:
    """How this broker connects to the others, if it does. Raises ValueError, for a file that is no good, too."""
    if not settings.is_in_cluster:
        return None
    from oncelog.broker import security_towards_listener

    between = inter_broker_listener(settings)
    security = security_towards_listener(settings, next(one for one in endpoints if one.name == between))
    if security.protocol == PLAINTEXT:
        return None
    from oncelog.server.link_security import LinkSecurity

    return LinkSecurity(security)


def reachable(endpoint: Endpoint) -> Endpoint:
    """With a host by which others find it."""
    return replace(endpoint, host=socket.gethostname()) if endpoint.is_every_address else endpoint


def bind_all(endpoints: Sequence[Endpoint], settings: Settings) -> list[socket.socket]:
    """Raises OSError, and has bound nothing then."""
    sockets: list[socket.socket] = []
    try:
        sockets.extend(bind(endpoint.host, endpoint.port, settings) for endpoint in endpoints)
    except OSError:
        close_all(sockets)
        raise
    return sockets


def close_all(sockets: Sequence[socket.socket]) -> None:
    """They were bound, and nobody accepts at them."""
    for one in sockets:
        one.close()


def bind(host: str, port: int, settings: Settings) -> socket.socket:
    """Listen there; at no host and at "::" over IPv4 and IPv6. Raises OSError with a sentence."""
    has_both = socket.has_dualstack_ipv6()
    known = host or (EVERY_ADDRESS if has_both else EVERY_IPV4_ADDRESS)
    try:
        found = socket.getaddrinfo(_name_to_look_up(known), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "that is no name of a host"
        raise OSError(f"cannot listen on {host}:{port}: {reason}") from error
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if has_both and known == EVERY_ADDRESS:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        for option, name in ((socket.SO_SNDBUF, "send"), (socket.SO_RCVBUF, "receive")):
            size_bytes = settings.number(f"socket.{name}.buffer.bytes")
            if size_bytes >= 0:
                # What is accepted inherits it.
                listener.setsockopt(socket.SOL_SOCKET, option, size_bytes)
        listener.bind(address)
        listener.listen(settings.number("socket.listen.backlog.size"))
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return listener


def peer_host(host: str) -> str:
    """The address of who has connected, in its own family."""
    return host.removeprefix(IPV4_PREFIX)


def _name_to_look_up(host: str) -> str | bytes:
    """The bytes of a name in ASCII: for a text Python loads its tables of international names, 2 ms of each start."""
    return host.encode() if host.isascii() else host
