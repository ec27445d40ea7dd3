"""A request that is not answered in time fails when it is waited for, however short that is and whoever else answers."""

from __future__ import annotations

import asyncio
import threading

import pytest

from oncelog.client import ConnectionLost
from oncelog.client import requests as api
from oncelog.client.net.flows import Flow, PendingRequest, Send, Sleep, Wait
from oncelog.client.net.settings import ClientSettings, parse_addresses
from oncelog.client.requests import ApiRequest
from oncelog.client.transports.asynchronous.transport import AsyncTransport
from oncelog.client.transports.blocking.transport import BlockingTransport
from oncelog.client.values import Address
from oncelog.testing import broker
from oncelog.testing.proxy import ApiKey, Proxy

REQUEST_MS = 300
QUESTION = ApiRequest(api.METADATA, {"topics": [], "allow_auto_topic_creation": False})


@pytest.fixture(scope="module")
def node():
    with broker() as node:
        yield node


def run_blocking(settings: ClientSettings, flow: Flow[PendingRequest]) -> PendingRequest:
    transport = BlockingTransport(settings)
    try:
        return transport.run(flow)
    finally:
        transport.close()


def run_on_loop(settings: ClientSettings, flow: Flow[PendingRequest]) -> PendingRequest:
    async def run() -> PendingRequest:
        transport = AsyncTransport(settings)
        try:
            return await transport.run(flow)
        finally:
            await transport.close()

    return asyncio.run(run())


async def wait_when_late(silent: Address, other: Address, timeout_ms: float | None) -> PendingRequest:
    """The silent one's request after one wait, which the other one's answer, if there is a time for it, would end as well."""
    late = await Send(silent, QUESTION)
    await Wait((late,), REQUEST_MS / 3)
    answered: tuple[PendingRequest, ...] = ()
    if timeout_ms is None:
        pending = await Send(other, QUESTION)
        while not pending.is_done:
            await Wait((pending,))
        answered = (pending,)
    await Sleep(REQUEST_MS, REQUEST_MS)
    assert not late.is_done
    await Wait((late, *answered), timeout_ms)
    return late


@pytest.mark.parametrize("timeout_ms", [0, None], ids=["no time", "another answer"])
@pytest.mark.parametrize("run", [run_blocking, run_on_loop])
def test_late_answer_is_given_up_by_a_wait_that_something_else_ends(node, run, timeout_ms):
    settings = ClientSettings(parse_addresses(node.bootstrap_servers), request_timeout_ms=REQUEST_MS)
    released = threading.Event()
    with Proxy(node.bootstrap_servers) as proxy:
        proxy.at_answer(ApiKey.METADATA, call=released.wait)
        (silent,) = parse_addresses(proxy.bootstrap_servers)
        try:
            late = run(settings, wait_when_late(silent, settings.bootstrap[0], timeout_ms))
        finally:
            released.set()
    assert late.is_done
    with pytest.raises(ConnectionLost, match="no answer to Metadata in time"):
        late.result()
