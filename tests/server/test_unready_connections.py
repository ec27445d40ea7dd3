"""Connections that never get ready: each gives back its place under `max.connections` and `max.connections.per.ip`."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from harness.secured_listeners import WRONG, SecuredListeners
from harness.waiting import until
from oncelog.client import AuthenticationFailed, ClientError
from oncelog.server import admission
from oncelog.testing import local_broker

ALLOWED = 3
PATIENCE_S = 20
BROKEN_FRAME = struct.pack(">i", -1)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> SecuredListeners:
    return SecuredListeners(tmp_path_factory.mktemp("keys"))


@pytest.fixture(params=["max.connections", "max.connections.per.ip"])
def limit(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=["uvloop", "asyncio"])
def served(
    request: pytest.FixtureRequest, keys: SecuredListeners, limit: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SecuredListeners]:
    if request.param == "asyncio":
        monkeypatch.setattr(local_broker, "new_event_loop", asyncio.new_event_loop)
    monkeypatch.setattr(admission, "HANDSHAKE_S_MAX", 0.2)
    with local_broker.broker(**keys.settings, **{limit: ALLOWED}):
        yield keys


def connected(served: SecuredListeners, name: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.ports[name]), PATIENCE_S)


def until_it_is_closed(connection: socket.socket) -> None:
    with suppress(ConnectionError):
        while connection.recv(1000):
            pass


def say_nothing(served: SecuredListeners) -> None:
    with connected(served, "SSL") as connection:
        until_it_is_closed(connection)


def speak_no_tls(served: SecuredListeners) -> None:
    with connected(served, "SSL") as connection:
        connection.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
        until_it_is_closed(connection)


def hang_up_at_once(served: SecuredListeners) -> None:
    connected(served, "SSL").close()


def hang_up_in_the_middle(served: SecuredListeners) -> None:
    with connected(served, "SSL") as connection:
        half = ssl.MemoryBIO(), ssl.MemoryBIO()
        hello = ssl.create_default_context().wrap_bio(*half, server_hostname="127.0.0.1")
        with pytest.raises(ssl.SSLWantReadError):
            hello.do_handshake()
        connection.sendall(half[1].read()[:50])


def show_a_certificate_of_a_stranger(served: SecuredListeners) -> None:
    context = ssl.create_default_context(cafile=served.authority.file)
    context.load_cert_chain(served.stranger.issue("mallory").both_file)
    with (
        connected(served, "MUTUAL") as connection,
        suppress(ssl.SSLError, ConnectionError),
        context.wrap_socket(connection, server_hostname="127.0.0.1") as encrypted,
    ):
        until_it_is_closed(encrypted)


def trust_nobody(served: SecuredListeners) -> None:
    with connected(served, "SSL") as connection, suppress(ssl.SSLError):
        ssl.create_default_context().wrap_socket(connection, server_hostname="127.0.0.1")


def log_in_with_a_wrong_password(served: SecuredListeners) -> None:
    with pytest.raises(AuthenticationFailed):
        served.client("SASL_SSL", sasl_password=WRONG).describe_cluster()


def leave_before_the_log_in(served: SecuredListeners) -> None:
    connected(served, "SASL_PLAINTEXT").close()


def break_off_the_log_in(served: SecuredListeners) -> None:
    with connected(served, "SASL_PLAINTEXT") as connection:
        connection.sendall(BROKEN_FRAME)
        until_it_is_closed(connection)


@pytest.mark.parametrize(
    "fail",
    [
        say_nothing,
        speak_no_tls,
        hang_up_at_once,
        hang_up_in_the_middle,
        show_a_certificate_of_a_stranger,
        trust_nobody,
        log_in_with_a_wrong_password,
        leave_before_the_log_in,
        break_off_the_log_in,
    ],
)
def test_connection_that_never_gets_ready_gives_its_place_back(
    served: SecuredListeners, fail: Callable[[SecuredListeners], None]
) -> None:
    for _ in range(ALLOWED + 1):
        fail(served)
    until(lambda: is_served(served))


def is_served(served: SecuredListeners) -> bool:
    """Whoever hung up may be noticed only now. A place that is never given back is missed here for as long as one waits."""
    try:
        with served.client("SSL") as client:
            return len(client.describe_cluster().nodes) == 1
    except ClientError:
        return False
