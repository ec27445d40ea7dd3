"""Listeners with TLS and SASL on real sockets: who is let in, who is not and why, and that nobody holds up anybody."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from harness.certificates import Authority
from harness.processes import free_port
from harness.secured_cluster import login_module
from harness.waiting import until
from harness.wire import Connection
from oncelog import Broker
from oncelog.client import (
    AuthenticationFailed,
    Client,
    ClientError,
    Consumer,
    IsolationLevel,
    NewTopic,
    Producer,
    TopicPartition,
    read_security,
)

USER, PASSWORD, WRONG = "alice", "wonderland-77f0", "jabberwocky-12ab"
PATIENCE_S = 20


class Served:
    """One broker with a listener for each protocol, and the authority that its certificate is by."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory, "authority")
        self.stranger = Authority(directory, "stranger")
        own = self.authority.issue("broker")
        names = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", "MUTUAL")
        self.ports = {name: free_port() for name in names}
        self.settings = {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{name}" for name in names[:-1]) + ",MUTUAL:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(own.both_file),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.file),
            "listener.name.mutual.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN",
            "socket.request.max.bytes": "4000000",
            "sasl.server.max.receive.size": "2000",
        } | {
            f"listener.name.{name}.plain.sasl.jaas.config": login_module("PLAIN", alice=PASSWORD)
            for name in ("sasl_plaintext", "sasl_ssl")
        }

    def address(self, name: str) -> str:
        return f"127.0.0.1:{self.ports[name]}"

    def options(self, name: str, **changed: str) -> Any:
        protocol = "SSL" if name == "MUTUAL" else name
        options = {"security.protocol": protocol}
        if protocol.endswith("SSL"):
            options["ssl.ca.location"] = str(self.authority.file)
        if protocol.startswith("SASL"):
            options |= {"sasl.mechanism": "PLAIN", "sasl.username": USER, "sasl.password": PASSWORD}
        if name == "MUTUAL":
            options["ssl.keystore.type"] = "PEM"
            options["ssl.keystore.location"] = str(self.authority.issue("client").both_file)
        return read_security(options | {option.replace("_", "."): value for option, value in changed.items()})

    def client(self, name: str, **changed: str) -> Client:
        security = self.options(name, **changed)
        return Client(self.address(name), security=security, call_timeout_ms=5_000)


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def served(request, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    from oncelog.testing import local_broker

    found = Served(tmp_path_factory.mktemp("keys"))
    patch = pytest.MonkeyPatch()
    if request.param == "asyncio":
        patch.setattr(local_broker, "new_event_loop", asyncio.new_event_loop)
    with local_broker.broker(**found.settings):
        yield found
    patch.undo()


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What the broker says of connections that it ends."""
    caplog.set_level(logging.INFO, logger="oncelog.connections")
    return lambda: [one.getMessage() for one in caplog.records if "is closed: " in one.getMessage()]


@pytest.mark.parametrize("name", ["SSL", "SASL_PLAINTEXT", "SASL_SSL", "MUTUAL"])
def test_large_records_come_and_go_at_every_listener(served: Served, name: str) -> None:
    values = [bytes([number]) * 900_000 for number in range(5)]
    topic = f"large-{name}"
    security, address = served.options(name), served.address(name)
    with served.client(name) as client:
        client.create_topics([NewTopic(topic, 1, 1)])
    with Producer(address, security=security, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for value in values:
            producer.send(topic, value)
        producer.commit_transaction()
    found: list[bytes | None] = []
    with Consumer(address, security=security, isolation_level=IsolationLevel.READ_COMMITTED) as consumer:
        consumer.assign({TopicPartition(topic, 0): 0})
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < len(values) and time.monotonic() < deadline:
            found += [record.value for record in consumer.poll(1000)]
    assert found == values


@pytest.mark.parametrize("name", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", "MUTUAL"])
def test_client_is_told_the_address_of_the_listener_that_it_came_to(served: Served, name: str) -> None:
    with served.client(name) as client:
        (node,) = client.describe_cluster().nodes
        assert (node.host, node.port) == ("127.0.0.1", served.ports[name])
        client.create_topics([NewTopic(f"told-{name}", 1, 1)])
        assert client.metadata([f"told-{name}"])[f"told-{name}"].partitions[0].leader == node.node_id


@pytest.mark.parametrize("name", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_wrong_password_is_told_and_said_once(served: Served, said, name: str) -> None:
    with pytest.raises(AuthenticationFailed, match="Authentication failed: Invalid username or password") as refused:
        served.client(name, sasl_password=WRONG).describe_cluster()
    assert WRONG not in str(refused.value)
    until(lambda: len(said()) == 1)
    assert "it is not authenticated by PLAIN: Authentication failed: Invalid username or password" in said()[0]
    assert WRONG not in said()[0]


def test_user_that_is_not_known_is_told_the_same(served: Served) -> None:
    with pytest.raises(AuthenticationFailed, match="Authentication failed: Invalid username or password"):
        served.client("SASL_SSL", sasl_username="mallory").describe_cluster()


def test_mechanism_that_is_not_enabled_is_refused_with_those_that_are(served: Served, said) -> None:
    with pytest.raises(AuthenticationFailed, match="does not take SCRAM-SHA-256: it takes PLAIN"):
        served.client("SASL_SSL", sasl_mechanism="SCRAM-SHA-256").describe_cluster()
    until(lambda: len(said()) == 1)


def test_request_before_the_log_in_ends_the_connection(served: Served, said) -> None:
    connection = Connection(served.address("SASL_PLAINTEXT"), timeout_seconds=PATIENCE_S)
    connection.ask("api_versions", 0)
    with pytest.raises(ConnectionError):
        connection.ask("metadata", 1, topics=None)
    until(lambda: len(said()) == 1)
    assert "Unexpected Kafka request of type Metadata during SASL handshake." in said()[0]


def test_large_request_before_the_log_in_is_not_read(served: Served, said) -> None:
    with socket.create_connection(("127.0.0.1", served.ports["SASL_PLAINTEXT"]), PATIENCE_S) as stranger:
        stranger.sendall(struct.pack(">i", 2_001) + bytes(100))
        assert stranger.recv(1) == b""
    until(lambda: len(said()) == 1)
    assert "a request of 2001 bytes is not taken" in said()[0]


def test_log_in_where_there_is_none_is_refused(served: Served) -> None:
    connection = Connection(served.address("PLAINTEXT"))
    assert connection.ask("sasl_handshake", 1, mechanism="PLAIN").error_code.name == "illegal_sasl_state"
    assert connection.ask("sasl_authenticate", 1, auth_bytes=b"").error_code.name == "illegal_sasl_state"


def test_plain_text_at_a_listener_with_tls_is_said_once(served: Served, said) -> None:
    with socket.create_connection(("127.0.0.1", served.ports["SSL"]), PATIENCE_S) as stranger:
        stranger.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
        while stranger.recv(100):
            pass
    until(lambda: len(said()) == 1)
    assert "the TLS handshake failed: " in said()[0]


def test_tls_at_a_listener_without_is_said_once(served: Served, said) -> None:
    with pytest.raises(ClientError):
        Client(served.address("PLAINTEXT"), security=served.options("SSL"), call_timeout_ms=1_000).describe_cluster()
    until(lambda: len(said()) >= 1)
    assert all("is not taken" in line for line in said())


@pytest.mark.parametrize("by", ["nobody", "stranger"])
def test_certificate_that_is_missing_or_of_a_stranger_is_refused(served: Served, said, by: str) -> None:
    context = ssl.create_default_context(cafile=served.authority.file)
    if by == "stranger":
        context.load_cert_chain(served.stranger.issue("mallory").both_file)
    with (
        socket.create_connection(("127.0.0.1", served.ports["MUTUAL"]), PATIENCE_S) as stranger,
        context.wrap_socket(stranger, server_hostname="127.0.0.1") as encrypted,
        # With TLS 1.3 a client hears of it after its own part of the handshake.
        suppress(ssl.SSLError, ConnectionError),
    ):
        assert encrypted.recv(1) == b""
    until(lambda: len(said()) == 1)
    assert "the TLS handshake failed: " in said()[0]


def test_who_shakes_no_hands_holds_up_nobody(served: Served) -> None:
    silent = [socket.create_connection(("127.0.0.1", served.ports["SSL"]), PATIENCE_S) for _ in range(20)]
    half = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = ssl.create_default_context().wrap_bio(*half, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    silent[0].sendall(half[1].read()[:20])
    with served.client("SASL_SSL") as client:
        assert len(client.describe_cluster().nodes) == 1
    for one in silent:
        one.close()


def test_broker_with_half_a_handshake_stops(tmp_path: Path) -> None:
    async def test() -> None:
        authority = Authority(tmp_path, "authority")
        settings = {
            "listeners": "SSL://127.0.0.1:0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.issue("broker").both_file),
        }
        running = Broker(settings=settings)
        await running.start()
        _, writer = await asyncio.open_connection("127.0.0.1", running.endpoints[0].port)
        writer.write(b"\x16\x03\x01")
        await asyncio.sleep(0.05)
        async with asyncio.timeout(PATIENCE_S):
            await running.stop()
        writer.close()

    asyncio.run(test())


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"ssl.keystore.location": "/nowhere.pem"}, "ssl.keystore.location: /nowhere.pem cannot be read"),
        ({"ssl.keystore.type": "JKS"}, "ssl.keystore.location: "),
        (
            {"sasl.enabled.mechanisms": "GSSAPI"},
            "sasl.enabled.mechanisms=GSSAPI is not allowed .*: PLAIN, SCRAM-SHA-256",
        ),
        ({"sasl.enabled.mechanisms": "SCRAM-SHA-256"}, "the users of SCRAM are in ZooKeeper"),
        ({"listener.name.sasl_ssl.plain.sasl.jaas.config": ""}, "sasl.jaas.config is not allowed"),
        ({"listener.name.sasl_ssl.plain.sasl.jaas.config": f"x.Other required password={WRONG};"}, "PlainLoginModule"),
    ],
)
def test_what_cannot_be_secured_is_one_sentence_before_anything_listens(
    tmp_path: Path, changed: dict[str, str], why: str
) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        Broker(settings=Served(tmp_path).settings | changed)
    assert WRONG not in str(refused.value)


def test_address_of_the_command_line_takes_the_place_of_no_listener_that_is_protected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not allowed beside --listen, which is one listener without protection"):
        Broker(listen="127.0.0.1:0", settings=Served(tmp_path).settings)
