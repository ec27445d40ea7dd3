"""The proxy, in front of a server that echoes frames and in front of a real broker."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from harness.processes import free_port
from oncelog.client import Producer as OncelogProducer
from oncelog.testing import broker
from oncelog.testing.proxy import ApiKey, Frame, Point, Proxy, Then


class EchoServer:
    """Answers every request with its correlation id and its body, and remembers which it got."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.got: list[int] = []
        self.received = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def close(self) -> None:
        """Stop listening. Closing alone would not: the thread in `accept` keeps the socket alive until a client comes."""
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def wait_for(self, correlation_id: int) -> bool:
        with self.received:
            return self.received.wait_for(lambda: correlation_id in self.got, timeout=10)

    def _accept(self) -> None:
        while True:
            try:
                side, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(side,), daemon=True).start()

    def _serve(self, side: socket.socket) -> None:
        stream = side.makefile("rb")
        while head := stream.read(4):
            payload = stream.read(struct.unpack(">i", head)[0])
            correlation_id, client_size = struct.unpack_from(">ih", payload, 4)
            with self.received:
                self.got.append(correlation_id)
                self.received.notify_all()
            body = payload[4:8] + payload[10 + client_size :]
            try:
                side.sendall(struct.pack(">i", len(body)) + body)
            except OSError:
                return


class Caller:
    """One connection that sends requests by hand."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=10)

    def send(self, api_key: int, correlation_id: int, body: bytes = b"", client_id: bytes = b"me") -> None:
        payload = struct.pack(">hhih", api_key, 3, correlation_id, len(client_id)) + client_id + body
        self.socket.sendall(struct.pack(">i", len(payload)) + payload)

    def receive(self) -> tuple[int, bytes] | None:
        """The correlation id and body of the next answer, or None when the connection is closed."""
        stream = self.socket.makefile("rb")
        try:
            head = stream.read(4)
        except ConnectionResetError:
            return None
        if len(head) < 4:
            return None
        payload = stream.read(struct.unpack(">i", head)[0])
        return struct.unpack_from(">i", payload)[0], payload[4:]

    def ask(self, api_key: int, correlation_id: int, body: bytes = b"") -> tuple[int, bytes] | None:
        self.send(api_key, correlation_id, body)
        return self.receive()


@pytest.fixture
def server() -> Iterator[EchoServer]:
    echo = EchoServer()
    yield echo
    echo.close()


@pytest.fixture
def proxy(server: EchoServer) -> Iterator[Proxy]:
    with Proxy(server.address) as between:
        yield between


def test_frames_without_a_rule_pass_and_are_counted(proxy):
    caller = Caller(proxy.bootstrap_servers)
    big = bytes(3_000_000)
    assert caller.ask(ApiKey.PRODUCE, 7, big) == (7, big)
    assert caller.ask(ApiKey.FETCH, 8) == (8, b"")
    assert proxy.counts[Point.REQUEST, ApiKey.PRODUCE] == proxy.counts[Point.ANSWER, ApiKey.PRODUCE] == 1


def test_request_that_is_cut_never_reaches_the_broker(proxy, server):
    rule = proxy.at_request(ApiKey.END_TXN, nth=2, then=Then.CUT)
    caller = Caller(proxy.bootstrap_servers)
    assert caller.ask(ApiKey.END_TXN, 1) == (1, b"")
    assert caller.ask(ApiKey.END_TXN, 2) is None
    assert rule.fired.is_set()
    assert Caller(proxy.bootstrap_servers).ask(ApiKey.END_TXN, 3) == (3, b"")
    assert server.got == [1, 3]


def test_request_that_is_forwarded_and_cut_reaches_the_broker_and_is_not_answered(proxy, server):
    proxy.at_request(ApiKey.END_TXN, then=Then.FORWARD_AND_CUT)
    assert Caller(proxy.bootstrap_servers).ask(ApiKey.END_TXN, 1) is None
    assert server.wait_for(1)


def test_answer_that_is_cut_was_given_by_the_broker_and_never_reaches_the_client(proxy, server):
    rule = proxy.at_answer(ApiKey.END_TXN, then=Then.CUT)
    assert Caller(proxy.bootstrap_servers).ask(ApiKey.END_TXN, 1) is None
    assert rule.fired.is_set()
    assert server.got == [1]


def test_call_runs_before_the_request_is_forwarded(proxy, server):
    seen: list[list[int]] = []
    proxy.at_request(ApiKey.PRODUCE, call=lambda: seen.append(list(server.got)))
    assert Caller(proxy.bootstrap_servers).ask(ApiKey.PRODUCE, 1) == (1, b"")
    assert seen == [[]]


def test_rule_counts_only_the_frames_its_condition_holds_for(proxy):
    def from_three_on(frame: Frame) -> bool:
        return frame.correlation_id >= 3 and frame.client_id == "me" and frame.api_version == 3

    rule = proxy.at_answer(ApiKey.PRODUCE, nth=2, where=from_three_on, then=Then.CUT)
    caller = Caller(proxy.bootstrap_servers)
    assert [caller.ask(ApiKey.PRODUCE, number) for number in (1, 2, 3, 4)] == [(1, b""), (2, b""), (3, b""), None]
    assert rule.seen == 2


def test_rule_fires_once(proxy):
    proxy.at_request(ApiKey.PRODUCE, then=Then.CUT)
    assert Caller(proxy.bootstrap_servers).ask(ApiKey.PRODUCE, 1) is None
    assert Caller(proxy.bootstrap_servers).ask(ApiKey.PRODUCE, 2) == (2, b"")


def test_cut_of_one_connection_leaves_the_others_open(proxy):
    first, second = Caller(proxy.bootstrap_servers), Caller(proxy.bootstrap_servers)
    assert second.ask(ApiKey.FETCH, 1) == (1, b"")
    proxy.at_request(ApiKey.PRODUCE, then=Then.CUT)
    assert first.ask(ApiKey.PRODUCE, 2) is None
    assert second.ask(ApiKey.FETCH, 3) == (3, b"")


def on_the_wire(address: str) -> bytes:
    host, port = address.split(":")
    return b"\x0a" + host.encode() + struct.pack(">i", int(port))


def test_addresses_in_answers_become_the_proxys(proxy, server):
    body, own = on_the_wire(server.address), on_the_wire(proxy.bootstrap_servers)
    caller = Caller(proxy.bootstrap_servers)
    assert caller.ask(ApiKey.METADATA, 1, body) == (1, own)
    # KIP-951: "new optional fields CurrentLeader and NodeEndpoints ... in FetchResponse and ProduceResponse".
    assert caller.ask(ApiKey.PRODUCE, 2, body) == (2, own)
    assert caller.ask(ApiKey.FETCH, 3, body) == (3, body)


def test_each_broker_of_a_cluster_has_an_address_of_the_proxys():
    with (
        closing(EchoServer()) as first,
        closing(EchoServer()) as second,
        Proxy(f"{first.address},{second.address}") as proxy,
    ):
        theirs = first.address, second.address
        own = proxy.bootstrap_servers.split(",")
        assert len({*theirs, *own}) == 4
        for number, (address, server) in enumerate(zip(own, (first, second), strict=True)):
            body = b"".join(map(on_the_wire, theirs))
            answer = Caller(address).ask(ApiKey.METADATA, number, body)
            assert answer == (number, b"".join(map(on_the_wire, own)))
            assert server.got == [number]


def test_rule_counts_what_goes_to_all_brokers():
    with (
        closing(EchoServer()) as first,
        closing(EchoServer()) as second,
        Proxy(f"{first.address},{second.address}") as proxy,
    ):
        rule = proxy.at_request(ApiKey.PRODUCE, nth=2, then=Then.CUT)
        one, other = map(Caller, proxy.bootstrap_servers.split(","))
        assert one.ask(ApiKey.PRODUCE, 1) == (1, b"")
        assert other.ask(ApiKey.PRODUCE, 2) is None
        assert rule.fired.is_set()
        assert (first.got, second.got) == ([1], [])


def test_ports_of_a_proxy_before_a_cluster_count_up_from_the_one_that_is_given(server):
    port = first_of_two_free_ports()
    with Proxy(f"{server.address},{server.address}", listen=f"127.0.0.1:{port}") as proxy:
        assert proxy.bootstrap_servers == f"127.0.0.1:{port},127.0.0.1:{port + 1}"


@pytest.mark.parametrize("host", ["[::1]", "127.0.0.2", "localhost"])
def test_clients_stay_behind_a_proxy_before_a_broker_at_any_host_of_this_machine(host):
    with broker(listen=f"{host}:0") as running, Proxy(running.bootstrap_servers) as proxy:
        cut = proxy.at_request(ApiKey.PRODUCE, then=Then.CUT)
        with OncelogProducer(proxy.bootstrap_servers) as producer:
            producer.send("behind-the-proxy", b"1")
        assert cut.fired.is_set()


def test_connection_that_opens_while_the_proxy_is_closed_is_closed_with_it(server, monkeypatch):
    connects, may_connect = threading.Event(), threading.Event()
    connect = socket.create_connection

    def connect_late(address, timeout):
        connects.set()
        assert may_connect.wait(10)
        return connect(address, timeout=timeout)

    proxy = Proxy(server.address)
    host, port = proxy.bootstrap_servers.split(":")
    monkeypatch.setattr("oncelog.testing.proxy.socket.create_connection", connect_late)
    with socket.socket() as client:
        client.settimeout(10)
        client.connect((host, int(port)))
        assert connects.wait(10)
        proxy.close()
        may_connect.set()
        assert client.recv(1) == b""


def first_of_two_free_ports():
    while True:
        port = free_port()
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port + 1))
            return port


def test_bytes_that_are_no_frame_close_the_connection(proxy):
    caller = Caller(proxy.bootstrap_servers)
    caller.socket.sendall(b"\xff\xff\xff\xffGET / HTTP/1.1")
    assert caller.receive() is None


def test_broker_that_is_gone_closes_the_connection_of_the_client(server):
    address = server.address
    server.close()
    with Proxy(address) as proxy:
        caller = Caller(proxy.bootstrap_servers)
        assert caller.receive() is None


@pytest.mark.jvm
def test_clients_of_a_real_broker_stay_behind_the_proxy_and_retry_what_was_cut(kafka):
    with Proxy(kafka.bootstrap_servers) as proxy:
        cut = proxy.at_answer(ApiKey.PRODUCE, then=Then.CUT)
        producer = Producer({"bootstrap.servers": proxy.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
        for number in range(10):
            producer.produce("behind-the-proxy", str(number), partition=0)
        assert producer.flush(30) == 0
        assert cut.fired.is_set()
        reader = Consumer(
            {"bootstrap.servers": proxy.bootstrap_servers, "group.id": "r", "auto.offset.reset": "earliest"}
        )
        reader.assign([TopicPartition("behind-the-proxy", 0, 0)])
        messages = [reader.poll(30) for _ in range(10)]
        reader.close()
    assert [int(message.value()) for message in messages] == list(range(10))
    assert proxy.counts[Point.REQUEST, ApiKey.FETCH] > 0
