"""The blocking transport and connections that end while nothing is asked of them."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import pytest

from oncelog.client import Client, OffsetSpec, RetriesExhausted, TopicPartition
from oncelog.client.net.flows import Handshake, Wait
from oncelog.client.net.settings import ClientSettings, parse_addresses
from oncelog.client.transports.blocking.transport import BlockingTransport
from oncelog.testing import broker

IDLE_MS = 300


def test_connection_that_ends_while_idle_costs_no_time():
    """Its socket stays readable for ever: a wait that did not take in the end would turn in a circle."""
    with broker() as node:
        settings = ClientSettings(parse_addresses(node.bootstrap_servers))
        transport = BlockingTransport(settings)
        transport.run(handshake(settings))
    before_s = time.thread_time()
    transport.run(be_idle())
    assert time.thread_time() - before_s < IDLE_MS / 1000 / 4
    transport.close()


async def handshake(settings: ClientSettings) -> None:
    await Handshake(settings.bootstrap[0], settings.connect_timeout_ms)


async def be_idle() -> None:
    await Wait((), IDLE_MS)


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.metadata(),
        lambda client: client.transaction_version(),
        lambda client: client.list_offsets({TopicPartition("t", 0): OffsetSpec.LATEST}),
    ],
)
def test_silent_addresses_take_no_longer_than_the_call_may(ask: Callable[[Client], object]):
    """Each of them may take as long as a connection may, which is longer than the call may."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
        servers = ",".join([f"127.0.0.1:{silent.getsockname()[1]}"] * 10)
        before_s = time.monotonic()
        with Client(servers, call_timeout_ms=500, connect_timeout_ms=2000) as client, pytest.raises(RetriesExhausted):
            ask(client)
    assert time.monotonic() - before_s < 10
