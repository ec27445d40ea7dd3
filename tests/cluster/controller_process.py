"""A controller of ours on a thread, over a real ZooKeeper and real sockets, that real brokers can be told by."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

from oncelog.cluster.channel import Channel
from oncelog.cluster.controller.controller import Controller
from oncelog.cluster.controller.term import ControllerParts, ControllerSettings
from oncelog.cluster.zookeeper.session import Create, Request, Result, Watched, ZooKeeperSessionState
from oncelog.cluster.zookeeper.znodes import BrokerZnode, ListenerEndpoint, paths
from oncelog.server.clock import RealClock, RealRandom
from oncelog.server.network import SocketNetwork
from oncelog.server.zookeeper import RealZooKeeper, parse_ensemble
from tests.cluster.controller_listener import listen

T = TypeVar("T")
TIMEOUT_S = 30


class ControllerProcess:
    """It makes what a broker makes in ZooKeeper first, and is then the controller if there is none."""

    def __init__(self, zookeeper_connect: str, node_id: int, listener: str = "PLAINTEXT") -> None:
        self.node_id = node_id
        self.asked: list[int] = []
        """The keys of what brokers have asked of the controller."""
        self._listener = listener
        self.bugs: list[BaseException] = []
        self._where = parse_ensemble(zookeeper_connect)
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.run(self._begin())

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(TIMEOUT_S)

    def ask(self, request: Request) -> Result:
        return self.run(self._ask(request))

    def end(self) -> None:
        self.run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)
        assert self.bugs == []

    def open_channel(self, broker_id: int, host: str, port: int) -> Channel:
        return Channel(self._network, self.clock, self.random, broker_id, host, port, str(self.node_id))

    async def _begin(self) -> None:
        self.clock = RealClock(self._loop, self._guard)
        self.random = RealRandom()
        self._network = SocketNetwork(self._loop, self._guard)
        self.zookeeper = RealZooKeeper(self._where, 6000, 10_000, self._guard)
        parts = ControllerParts(
            self.clock,
            self.random,
            self.zookeeper,
            self.node_id,
            self.open_channel,
            is_unclean_election_enabled=lambda: False,
        )
        self.controller = Controller(parts, ControllerSettings(self._listener))
        self.zookeeper.on_watched = self._watched
        self.zookeeper.on_session = self._session_changed
        await self.zookeeper.connected()
        for path in paths.MADE_AT_START:
            for parent in (*paths.parents(path), path):
                await self._ask(Create(parent))
        self.controller.begin()

    def register(self) -> None:
        """Be a broker, too: one that leads nothing, and that brokers reach as the controller."""
        self.run(self._register())

    async def _register(self) -> None:
        server = await listen(self.controller, self.asked)
        port = server.sockets[0].getsockname()[1]
        znode = BrokerZnode((ListenerEndpoint(self._listener, "127.0.0.1", port),), 0)
        await self._ask(Create(paths.broker(self.node_id), znode.encode(), is_ephemeral=True))

    async def _end(self) -> None:
        self.controller.close()
        self.zookeeper.close()
        await self.zookeeper.wait_closed()

    async def _ask(self, request: Request) -> Result:
        answer: asyncio.Future[Result] = self._loop.create_future()
        self.zookeeper.submit(request).then(answer.set_result)
        return await answer

    def _watched(self, watched: Watched) -> None:
        self.controller.watched(watched)

    def _session_changed(self, state: ZooKeeperSessionState) -> None:
        self.controller.session_changed(state)

    def _guard(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - whatever it is, the test is to see it
            self.bugs.append(error)
