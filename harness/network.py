"""The network between programs of one machine, which a test may cut: both ways, one way, one link alone.

Each program has a name. Connections to it go through an entrance, a port of the network, and whoever opens one is told by
the port or by the first bytes that it sends.
"""

from __future__ import annotations

import asyncio
import re
import struct
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

CLIENTS = "clients"
CHUNK_BYTES = 1 << 16
CALL_SECONDS = 30
CLIENT_ID = struct.Struct(">ihhih")
"""What comes before the client id of a request: size, API key, version, correlation id, and the length of the client id."""
Way = tuple[str, str]
"""From one program to another: what the first sends the second, whichever of them has opened the connection."""
OpenerOf = Callable[[bytes], str | None]
"""Who opens a connection that begins with these bytes; None where they are too few to tell."""
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False, slots=True)
class NetworkCut:
    """On these ways nothing comes through, not even the end of a connection: it waits, and arrives when the cut is mended.

    One that `closes` ends the connections that have such a way, and those that are opened meanwhile.
    """

    ways: frozenset[Way]
    closes: bool = False


def both_ways(one: Iterable[str], other: Iterable[str]) -> frozenset[Way]:
    return one_way(one, others := list(other)) | one_way(others, one)


def one_way(sources: Iterable[str], targets: Iterable[str]) -> frozenset[Way]:
    there = list(targets)
    return frozenset((source, target) for source in sources for target in there)


def opener_by_client_id(first: bytes) -> str | None:
    """Who sends this request: a broker has its number in its client id, and a client has none there."""
    if len(first) < CLIENT_ID.size:
        return None
    *_, size = CLIENT_ID.unpack_from(first)
    client_id = first[CLIENT_ID.size :][:size].decode()
    if len(client_id) < size:
        return None
    found = re.search(r"\d+", client_id)
    return CLIENTS if found is None else broker_name(int(found[0]))


def broker_name(broker_id: int) -> str:
    return f"broker {broker_id}"


class Network:
    """Its event loop has a thread of its own; `close` ends both."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._cuts: set[NetworkCut] = set()
        self._changed = asyncio.Condition()
        self._entrances: list[asyncio.Server] = []
        self._connections: dict[asyncio.Task[None], tuple[str, str] | None] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._thread.start()

    def entrance(self, target: str, port: int, opener: str | OpenerOf) -> int:
        """A port of the network that leads to a port of this program."""
        opener_of = (lambda _: opener) if isinstance(opener, str) else opener
        return self._call(self._open(target, port, opener_of))

    def cut(self, ways: Iterable[Way], *, closes: bool = False) -> NetworkCut:
        made = NetworkCut(frozenset(ways), closes)
        self._call(self._change(lambda: self._cuts.add(made)))
        return made

    def mend(self, cut: NetworkCut) -> None:
        self._call(self._change(lambda: self._cuts.discard(cut)))

    def close_connections(self, ways: Iterable[Way]) -> None:
        """Those that are open now. New ones may be opened at once."""
        self.mend(self.cut(ways, closes=True))

    def close(self) -> None:
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, what: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(CALL_SECONDS)

    async def _open(self, target: str, port: int, opener_of: OpenerOf) -> int:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections[task] = None
            try:
                await self._join(task, target, port, opener_of, (reader, writer))
            except (OSError, asyncio.CancelledError):
                pass
            finally:
                writer.transport.abort()
                del self._connections[task]

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self._entrances.append(server)
        port_here: int = server.sockets[0].getsockname()[1]
        return port_here

    async def _join(
        self,
        task: asyncio.Task[None],
        target: str,
        port: int,
        opener_of: OpenerOf,
        near: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        """Begin when both ways are open, as a connection does that is being made; then pass on what comes, until it ends."""
        first = b""
        while (opener := opener_of(first)) is None or not first:
            data = await near[0].read(CHUNK_BYTES)
            if not data:
                return
            first += data
        self._connections[task] = (opener, target)
        if self._is_refused(opener, target):
            return
        await self._passable((opener, target), (target, opener))
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            far_writer.write(first)
            there = self._pass_on(near[0], far_writer, (opener, target))
            back = self._pass_on(far_reader, near[1], (target, opener))
            await asyncio.gather(there, back)
        finally:
            far_writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
        """Half of a connection may end before the other does. Whoever was killed has ended it, too."""
        with suppress(ConnectionError):
            while data := await reader.read(CHUNK_BYTES):
                await self._passable(way)
                writer.write(data)
                await writer.drain()
        await self._passable(way)
        with suppress(OSError):
            writer.write_eof()

    async def _passable(self, *ways: Way) -> None:
        if any(way in cut.ways for cut in self._cuts for way in ways):
            async with self._changed:
                await self._changed.wait_for(lambda: not any(way in cut.ways for cut in self._cuts for way in ways))

    def _is_refused(self, opener: str, target: str) -> bool:
        return any(way in cut.ways for cut in self._cuts if cut.closes for way in ((opener, target), (target, opener)))

    async def _change(self, change: Callable[[], object]) -> None:
        change()
        for task, ends in self._connections.items():
            if ends is not None and self._is_refused(*ends):
                task.cancel()
        async with self._changed:
            self._changed.notify_all()

    async def _end(self) -> None:
        for server in self._entrances:
            server.close()
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
