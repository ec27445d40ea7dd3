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

import pytest

from harness.certificates import Authority
from harness.secured_listeners import PASSWORD, WRONG, SecuredListeners
from harness.waiting import until
from harness.wire import Connection
from oncelog import Broker
from oncelog.client import (
    AuthenticationFailed,
    Consumer,
    IsolationLevel,
    NewTopic,
    Producer,
    TopicPartition,
)

PATIENCE_S = 20


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def served(request, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredListeners]:
    from oncelog.testing import local_broker

    found = SecuredListeners(tmp_path_factory.mktemp("keys"))
    patch = pytest.MonkeyPatch()
    if request.param == "asyncio":
        patch.setattr(local_broker, "new_event_loop", asyncio.new_event_loop)
    with local_broker.broker(**found.settings):
        yield found
    patch.undo()


@pytest.fixture
def said_once(caplog: pytest.LogCaptureFixture) -> Callable[..., str]:
    """Wait until the broker says why it ends a connection, of this port if one is named: the line, which is the only one."""
    caplog.set_level(logging.INFO, logger="oncelog.connections")

    def wait(text: str, port: int | None = None) -> str:
        whose = "" if port is None else f":{port} is closed: "

        def lines() -> list[str]:
            said = [one.getMessage() for one in caplog.records if "is closed: " in one.getMessage()]
            return [line for line in said if text in line and whose in line]

        until(lambda: bool(lines()))
        time.sleep(0.05)
        (line,) = lines()
        return line

    return wait


@pytest.mark.parametrize("name", ["SSL", "SASL_PLAINTEXT", "SASL_SSL", "MUTUAL"])
def test_large_records_come_and_go_at_every_listener(served: SecuredListeners, name: str) -> None:
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
def test_client_is_told_the_address_of_the_listener_that_it_came_to(served: SecuredListeners, name: str) -> None:
    with served.client(name) as client:
        (node,) = client.describe_cluster().nodes
        assert (node.host, node.port) == ("127.0.0.1", served.ports[name])
        client.create_topics([NewTopic(f"told-{name}", 1, 1)])
        assert client.metadata([f"told-{name}"])[f"told-{name}"].partitions[0].leader == node.node_id


@pytest.mark.parametrize("name", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_wrong_password_is_told_and_said_once(served: SecuredListeners, said_once, name: str) -> None:
    with pytest.raises(AuthenticationFailed, match="Authentication failed: Invalid username or password") as refused:
        served.client(name, sasl_password=WRONG).describe_cluster()
    assert WRONG not in str(refused.value)
    line = said_once("it is not authenticated by PLAIN: Authentication failed: Invalid username or password")
    assert WRONG not in line


def test_user_that_is_not_known_is_told_the_same(served: SecuredListeners, said_once) -> None:
    with pytest.raises(AuthenticationFailed, match="Authentication failed: Invalid username or password"):
        served.client("SASL_SSL", sasl_username="mallory").describe_cluster()
    assert said_once("it is not authenticated by PLAIN: Authentication failed: Invalid username or password")


def test_mechanism_that_is_not_enabled_is_refused_with_those_that_are(served: SecuredListeners, said_once) -> None:
    with pytest.raises(AuthenticationFailed, match="does not take SCRAM-SHA-256: it takes PLAIN"):
        served.client("SASL_SSL", sasl_mechanism="SCRAM-SHA-256").describe_cluster()
    assert said_once("it wants the SASL mechanism 'SCRAM-SHA-256', which is not enabled")


def test_request_before_the_log_in_ends_the_connection(served: SecuredListeners, said_once) -> None:
    connection = Connection(served.address("SASL_PLAINTEXT"), timeout_seconds=PATIENCE_S)
    connection.ask("api_versions", 0)
    with pytest.raises(ConnectionError):
        connection.ask("metadata", 1, topics=None)
    assert said_once("Unexpected Kafka request of type Metadata during SASL handshake.")


def test_large_request_before_the_log_in_is_not_read(served: SecuredListeners, said_once) -> None:
    with socket.create_connection(("127.0.0.1", served.ports["SASL_PLAINTEXT"]), PATIENCE_S) as stranger:
        port = stranger.getsockname()[1]
        stranger.sendall(struct.pack(">i", 2_001) + bytes(100))
        assert stranger.recv(1) == b""
    assert said_once("a request of 2001 bytes is not taken", port)


def test_log_in_where_there_is_none_is_refused(served: SecuredListeners) -> None:
    connection = Connection(served.address("PLAINTEXT"))
    assert connection.ask("sasl_handshake", 1, mechanism="PLAIN").error_code.name == "illegal_sasl_state"
    assert connection.ask("sasl_authenticate", 1, auth_bytes=b"").error_code.name == "illegal_sasl_state"


def test_plain_text_at_a_listener_with_tls_is_said_once(served: SecuredListeners, said_once) -> None:
    with socket.create_connection(("127.0.0.1", served.ports["SSL"]), PATIENCE_S) as stranger:
        port = stranger.getsockname()[1]
        stranger.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
        while stranger.recv(100):
            pass
    assert said_once("the TLS handshake failed: ", port)


def test_tls_at_a_listener_without_is_said_once(served: SecuredListeners, said_once) -> None:
    stranger = socket.create_connection(("127.0.0.1", served.ports["PLAINTEXT"]), PATIENCE_S)
    port = stranger.getsockname()[1]
    with stranger, pytest.raises((ssl.SSLError, ConnectionError)):
        ssl.create_default_context().wrap_socket(stranger, server_hostname="127.0.0.1")
    # A record of TLS begins with the bytes 22, 3 and 1: as a length that is 369 million.
    assert said_once("a request of 3692", port)


@pytest.mark.parametrize("by", ["nobody", "stranger"])
def test_certificate_that_is_missing_or_of_a_stranger_is_refused(served: SecuredListeners, said_once, by: str) -> None:
    context = ssl.create_default_context(cafile=served.authority.file)
    if by == "stranger":
        context.load_cert_chain(served.stranger.issue("mallory").both_file)
    stranger = socket.create_connection(("127.0.0.1", served.ports["MUTUAL"]), PATIENCE_S)
    port = stranger.getsockname()[1]
    with (
        stranger,
        context.wrap_socket(stranger, server_hostname="127.0.0.1") as encrypted,
        # With TLS 1.3 a client hears of it after its own part of the handshake.
        suppress(ssl.SSLError, ConnectionError),
    ):
        assert encrypted.recv(1) == b""
    assert said_once("the TLS handshake failed: ", port)


def test_client_that_hangs_up_during_the_handshake_is_said_to(served: SecuredListeners, said_once) -> None:
    stranger = socket.create_connection(("127.0.0.1", served.ports["SSL"]), PATIENCE_S)
    port = stranger.getsockname()[1]
    stranger.close()
    assert said_once("the TLS handshake failed: the client hung up", port)


def test_who_shakes_no_hands_holds_up_nobody(served: SecuredListeners) -> None:
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


def test_settings_of_listeners_are_shown_without_their_secrets(served: SecuredListeners) -> None:
    connection = Connection(served.address("PLAINTEXT"))
    resource = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
    answer = connection.ask(
        "describe_configs", 4, resources=[resource], include_synonyms=True, include_documentation=False
    )
    found = {entry.name: entry for entry in answer.results[0].configs}
    assert found["listener.name.mutual.ssl.client.auth"].value == "required"
    users = found["listener.name.sasl_ssl.plain.sasl.jaas.config"]
    assert (users.value, users.is_sensitive) == (None, True)
    assert PASSWORD not in str(answer)


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
        Broker(settings=SecuredListeners(tmp_path).settings | changed)
    assert WRONG not in str(refused.value)


def test_address_of_the_command_line_takes_the_place_of_no_listener_that_is_protected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not allowed beside --listen, which is one listener without protection"):
        Broker(listen="127.0.0.1:0", settings=SecuredListeners(tmp_path).settings)
