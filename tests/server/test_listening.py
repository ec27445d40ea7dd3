"""Where a broker listens: at one address, or at every one of the machine, whichever family a client comes over."""

from __future__ import annotations

import socket

import pytest

from harness.processes import free_port
from harness.waiting import until
from oncelog.broker import Settings
from oncelog.client import Client, Consumer, NewTopic
from oncelog.server.listening import bind, parse_address, peer_host
from oncelog.testing import broker

needs_both = pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")


@needs_both
@pytest.mark.parametrize("host", ["", "::"])
def test_every_address_is_of_both_families(host: str) -> None:
    with bind(host, 0, Settings({})) as listener:
        port = listener.getsockname()[1]
        for address in ("127.0.0.1", "::1"):
            with socket.create_connection((address, port), timeout=10):
                listener.setblocking(True)
                accepted, peer = listener.accept()
                accepted.close()
                assert peer_host(peer[0]) == address


def test_every_address_of_ipv4_is_of_ipv4_alone() -> None:
    with bind("0.0.0.0", 0, Settings({})) as listener:
        assert listener.family is socket.AF_INET


def test_machine_without_ipv6_listens_at_every_address_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    with bind("", 0, Settings({})) as listener:
        assert listener.getsockname()[0] == "0.0.0.0"


@needs_both
@pytest.mark.parametrize(("address", "host"), [("127.0.0.1", "/127.0.0.1"), ("[::1]", "/::1")])
def test_client_is_known_by_its_address_in_its_own_family(address: str, host: str) -> None:
    """What limits, quotas and descriptions of groups go by."""
    port = free_port()
    settings = {"listeners": f"PLAINTEXT://:{port}", "advertised.listeners": f"PLAINTEXT://{address}:{port}"}
    with broker(**settings), Client(f"{address}:{port}") as client:
        client.create_topics([NewTopic("t", 1, 1)])
        with Consumer(f"{address}:{port}", group_id="g") as consumer:
            consumer.subscribe(["t"])
            until(lambda: consumer.poll(100) is not None and bool(consumer.assignment))
            (member,) = client.describe_group("g").members
    assert member.host == host


def test_star_is_no_address() -> None:
    with pytest.raises(ValueError, match=r"every address of the machine is \[::\]:9092"):
        parse_address("*:9092")
