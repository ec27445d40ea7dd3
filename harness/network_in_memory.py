"""A network that a test moves by hand: it accepts, refuses, delivers and cuts each link when it likes to."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import Buffer

from oncelog.environment import LinkListener
from oncelog.wire import FRAME_LENGTH


class LinkInMemory:
    """One link, seen from both sides. `sent` has the frames that came to the other side, without their lengths."""

    def __init__(self, host: str, port: int, listener: LinkListener, timeout_ms: int) -> None:
        self.host = host
        self.port = port
        self.timeout_ms = timeout_ms
        self.sent: list[bytes] = []
        self.is_closed = False
        self._listener = listener

    def send(self, chunks: Sequence[Buffer]) -> None:
        if not self.is_closed:
            data = b"".join(chunks)
            (size,) = FRAME_LENGTH.unpack_from(data)
            assert size == len(data) - FRAME_LENGTH.size, "one frame is sent at a time"
            self.sent.append(data[FRAME_LENGTH.size :])

    def close(self) -> None:
        self.is_closed = True

    def accept(self) -> None:
        if not self.is_closed:
            self._listener.opened(self)

    def deliver(self, frame: Buffer) -> None:
        if not self.is_closed:
            self._listener.received(memoryview(frame))

    def lose(self, reason: str) -> None:
        """Also how a connection is refused."""
        if not self.is_closed:
            self.is_closed = True
            self._listener.closed(reason)


class NetworkInMemory:
    """`links` has every link that was ever asked for, the newest last."""

    def __init__(self) -> None:
        self.links: list[LinkInMemory] = []

    def connect(self, host: str, port: int, listener: LinkListener, *, timeout_ms: int) -> LinkInMemory:
        link = LinkInMemory(host, port, listener, timeout_ms)
        self.links.append(link)
        return link
