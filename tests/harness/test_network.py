"""The network of the harness: what is cut, what waits, and what is closed."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from harness.network import CLIENTS, Network, both_ways, one_way, opener_by_client_id

SILENCE_SECONDS = 0.3


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network()
    yield made
    made.close()


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a program that sends back whatever it is sent."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(1024):
                connection.sendall(data)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def says(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    return connection.recv(1024)


def is_silent(connection: socket.socket) -> bool:
    connection.settimeout(SILENCE_SECONDS)
    try:
        connection.recv(1024)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(10)
    return False


def test_what_is_sent_on_a_way_that_is_cut_arrives_when_it_is_mended(network, echo):
    connection = connect(network.entrance("echo", echo, "one"))
    assert says(connection, b"before") == b"before"
    cut = network.cut(one_way(["one"], ["echo"]))
    connection.sendall(b"meanwhile")
    assert is_silent(connection)
    network.mend(cut)
    assert connection.recv(1024) == b"meanwhile"


def test_one_way_that_is_cut_leaves_the_other_and_others_alone(network, echo):
    cut_off, other = connect(network.entrance("echo", echo, "one")), connect(network.entrance("echo", echo, "two"))
    assert says(cut_off, b"a") == says(other, b"a") == b"a"
    cut = network.cut(one_way(["echo"], ["one"]))
    cut_off.sendall(b"b")
    assert says(other, b"c") == b"c"
    assert is_silent(cut_off)
    network.mend(cut)
    assert cut_off.recv(1024) == b"b"


def test_connection_that_is_made_over_a_cut_waits_and_its_end_too(network, echo):
    cut = network.cut(both_ways(["one"], ["echo"]))
    connection = connect(network.entrance("echo", echo, "one"))
    connection.sendall(b"a")
    connection.shutdown(socket.SHUT_WR)
    assert is_silent(connection)
    network.mend(cut)
    assert (connection.recv(1024), connection.recv(1024)) == (b"a", b"")


def test_cut_that_closes_ends_what_is_open_and_refuses_what_is_new(network, echo):
    port = network.entrance("echo", echo, "one")
    connection = connect(port)
    assert says(connection, b"a") == b"a"
    cut = network.cut(one_way(["one"], ["echo"]), closes=True)
    assert is_closed(connection)
    assert is_closed(connect(port))
    network.mend(cut)
    assert says(connect(port), b"b") == b"b"


def is_closed(connection: socket.socket) -> bool:
    try:
        return not says(connection, b"?")
    except ConnectionError:
        return True


def test_closed_connections_may_be_opened_again(network, echo):
    port = network.entrance("echo", echo, "one")
    connection = connect(port)
    assert says(connection, b"a") == b"a"
    network.close_connections(both_ways(["one"], ["echo"]))
    assert is_closed(connection)
    assert says(connect(port), b"b") == b"b"


@pytest.mark.parametrize(
    ("client_id", "opener"),
    [
        ("3", "broker 3"),
        ("broker-3-fetcher-0", "broker 3"),
        ("AddPartitionsManager-client-3", "broker 3"),
        ("broker-2-fetcher-3", "broker 2"),
        ("rdkafka", CLIENTS),
    ],
)
def test_who_opens_a_connection_is_told_by_the_client_id_of_the_first_request(network, echo, client_id, opener):
    port = network.entrance("echo", echo, opener_by_client_id)
    request = struct.pack(">ihhih", 10 + len(client_id), 1, 4, 7, len(client_id)) + client_id.encode()
    everybody = {CLIENTS, "broker 2", "broker 3"}
    others = network.cut(both_ways(everybody - {opener}, ["echo"]), closes=True)
    assert not is_closed_after(connect(port), request)
    network.mend(others)
    network.cut(both_ways([opener], ["echo"]), closes=True)
    assert is_closed_after(connect(port), request)


def is_closed_after(connection: socket.socket, request: bytes) -> bool:
    """It comes in two parts."""
    connection.sendall(request[:5])
    try:
        return not says(connection, request[5:])
    except ConnectionError:
        return True
