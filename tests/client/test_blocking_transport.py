"""The blocking transport and connections that end while nothing is asked of them."""

from __future__ import annotations

import time

from oncelog.client.conversation import Conversation, Greet, Wait
from oncelog.client.settings import ClientSettings, parse_addresses
from oncelog.client.transports.blocking.transport import BlockingTransport
from oncelog.testing import broker

IDLE_MS = 300


def test_connection_that_ends_while_idle_costs_no_time():
    """Its socket stays readable for ever: a wait that did not take in the end would turn in a circle."""
    with broker() as node:
        settings = ClientSettings(parse_addresses(node.bootstrap_servers))
        transport = BlockingTransport(settings)
        transport.run(greet(settings))
    before_s = time.thread_time()
    transport.run(be_idle())
    assert time.thread_time() - before_s < IDLE_MS / 1000 / 4
    transport.close()


def greet(settings: ClientSettings) -> Conversation[None]:
    yield Greet(settings.bootstrap[0])


def be_idle() -> Conversation[None]:
    yield Wait((), IDLE_MS)
