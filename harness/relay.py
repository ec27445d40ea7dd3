"""A TCP relay in the event loop of a test: what a link between two programs can suffer."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from enum import Enum, auto

CHUNK_BYTES = 1 << 16


class LinkState(Enum):
    WHOLE = auto()
    CUT = auto()
    """Whoever connects is cut off at once."""
    SILENT = auto()
    """Connections stay, and nothing comes through, not even their end."""


class Relay:
    """Listens at `port`, and passes on what comes to `target_port`, both of this machine."""

    def __init__(self, target_port: int) -> None:
        self.port = 0
        self._target_port = target_port
        self._state = LinkState.WHOLE
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        self._state = LinkState.CUT
        for writer in self._writers:
            writer.transport.abort()

    def silence(self) -> None:
        self._state = LinkState.SILENT

    def mend(self) -> None:
        self._state = LinkState.WHOLE

    async def stop(self) -> None:
        assert self._server is not None, "it was never started"
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._join(reader, writer)
        except OSError:
            writer.transport.abort()
        finally:
            self._tasks.discard(task)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._state is LinkState.CUT:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        self._writers |= {writer, far_writer}
        try:
            await asyncio.gather(self._pass_on(reader, far_writer), self._pass_on(far_reader, writer))
        finally:
            self._writers -= {writer, far_writer}

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                if self._state is LinkState.WHOLE:
                    writer.write(data)
        if self._state is not LinkState.SILENT:
            writer.close()
