"""The page that Prometheus reads: `GET /metrics` over HTTP/1.1, one request for each connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable

from oncelog.cluster.metrics import CONTENT_TYPE

REQUEST_BYTES_MAX = 16_384
REQUEST_TIMEOUT_S = 10
ANSWER_TIMEOUT_S = 30
TURN_S = 0.002
CONNECTIONS_MAX = 32
"""More than that are closed at once: who reads metrics takes nothing from those who read records."""


class MetricsListener:
    """`exposition` gives what is read, and `on_bug` hears where it does not."""

    def __init__(
        self, listener: socket.socket, exposition: Callable[[], Iterable[str]], on_bug: Callable[[BaseException], None]
    ) -> None:
        self._listener = listener
        self._exposition = exposition
        self._on_bug = on_bug
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, sock=self._listener, limit=REQUEST_BYTES_MAX)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._listener.close()
        for connection in tuple(self._connections):
            connection.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= CONNECTIONS_MAX:
            writer.transport.abort()
            return
        self._connections.add(writer)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
            writer.write(await self._answer(head))
            writer.write_eof()
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await writer.drain()
                # An end with something unread would take the answer back.
                await reader.read(1)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # A client that sends no request, or reads no answer, is disconnected.
            pass
        finally:
            self._connections.discard(writer)
            writer.transport.abort()

    async def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
        target = rest.partition(b" ")[0].partition(b"?")[0]
        if target != b"/metrics":
            return _response("404 Not Found", "text/plain", b"The metrics are at /metrics.\n", method)
        if method not in (b"GET", b"HEAD"):
            return _response("405 Method Not Allowed", "text/plain", b"Metrics are read with GET.\n", method)
        try:
            page = await self._page()
        except Exception as error:
            self._on_bug(error)
            raise
        return _response("200 OK", CONTENT_TYPE, page, method)

    async def _page(self) -> bytes:
        """In turns with everybody else."""
        loop = asyncio.get_running_loop()
        lines = []
        end_s = loop.time() + TURN_S
        for line in self._exposition():
            lines.append(line)
            if loop.time() > end_s:
                await asyncio.sleep(0)
                end_s = loop.time() + TURN_S
        return "".join(lines).encode()


def _response(status: str, content_type: str, body: bytes, method: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        f"{'Allow: GET, HEAD' + chr(13) + chr(10) if status.startswith('405') else ''}Connection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == b"HEAD" else body)
