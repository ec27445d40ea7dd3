"""Channels over real sockets, and an event loop to ask over them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import uvloop

from harness.processes import BrokerProcess
from oncelog.cluster.channel import Channel
from oncelog.coordination import Flow, start
from oncelog.server.clock import RealClock, RealRandom
from oncelog.server.network import SocketNetwork

T = TypeVar("T")
Play = Callable[[Channel], Awaitable[T]]


def with_channel(broker: BrokerProcess, play: Play[T], client_id: str = "tests") -> T:
    """Play with a channel to this broker."""

    async def run() -> T:
        loop = asyncio.get_running_loop()
        bugs: list[BaseException] = []

        def guard(callback: Callable[[], None]) -> None:
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - whatever it is, the test is to see it
                bugs.append(error)

        network, clock = SocketNetwork(loop, guard), RealClock(loop, guard)
        channel = Channel(network, clock, RealRandom(), 0, "127.0.0.1", broker.port, client_id)
        try:
            return await play(channel)
        finally:
            channel.close()
            assert bugs == []

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


def over(flow: Flow[T]) -> asyncio.Future[T]:
    """What the flow returns, for whoever waits on the event loop."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    start(flow).then(future.set_result)
    return future
