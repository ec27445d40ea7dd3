"""Links between simulated brokers: the `Network` of `environment.py` over streams that may be late, cut at any byte, or silent."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import Buffer

from oncelog.client.values import Address
from oncelog.environment import LINK_TRANSITIONS, LinkListener, LinkState
from oncelog.simulation.events import Process
from oncelog.simulation.network import FrameBuffer, Network, StreamEnd
from oncelog.wire import WireError

OPENING, OPEN, CLOSED = LinkState


class SimulatedLinks:
    """The links of one process. They end with it, and then nothing of it is called any more."""

    def __init__(self, process: Process, network: Network) -> None:
        self._process = process
        self._network = network

    def connect(self, host: str, port: int, listener: LinkListener, *, timeout_ms: int) -> SimulatedLink:
        address = Address(host, port)
        link = SimulatedLink(str(address), listener)
        late = f"{address} did not answer in {timeout_ms} ms"
        timer = self._process.after(timeout_ms, "link timeout", lambda: link.end(late))

        def opened(end: StreamEnd | None) -> None:
            timer.cancel()
            link.connected(end)

        self._network.connect(self._process, address, opened)
        return link


class SimulatedLink:
    """One link: an end of a stream, and what has come of a frame."""

    __slots__ = ("_end", "_frames", "_listener", "_name", "_state", "_unsent")

    def __init__(self, name: str, listener: LinkListener) -> None:
        self._name = name
        self._listener = listener
        self._state = OPENING
        self._end: StreamEnd | None = None
        self._unsent: list[Buffer] = []
        self._frames = FrameBuffer()

    def send(self, chunks: Sequence[Buffer]) -> None:
        if self._state is OPENING:
            self._unsent.extend(chunks)
        elif self._state is OPEN:
            assert self._end is not None, "an open link has a stream"
            self._end.send(b"".join(chunks))

    def close(self) -> None:
        if self._state is not CLOSED:
            self._move(CLOSED)
            if self._end is not None:
                self._end.close()

    def connected(self, end: StreamEnd | None) -> None:
        """The stream is there; None where nobody listens."""
        if self._state is CLOSED:
            if end is not None:
                end.close()
        elif end is None:
            self.end(f"{self._name} refused the connection: nobody listens there")
        elif end.is_closed:
            self.end(f"{self._name} closed the connection")
        else:
            self._end = end
            end.received, end.ended = self._received, self._ended
            self._move(OPEN)
            unsent, self._unsent = self._unsent, []
            if unsent:
                self.send(unsent)
            self._listener.opened(self)

    def end(self, reason: str) -> None:
        """End the link and tell its owner why."""
        if self._state is not CLOSED:
            self.close()
            self._listener.closed(reason)

    def _received(self, data: bytes) -> None:
        try:
            for frame in self._frames.take(data):
                if self._state is CLOSED:
                    return
                self._listener.received(memoryview(frame))
        except WireError as error:
            self.end(f"{self._name} sent what is no frame: {error}")

    def _ended(self, reason: str) -> None:
        self.end(f"{self._name}: {reason}{'' if self._frames.is_empty else ', in the middle of a frame'}")

    def _move(self, state: LinkState) -> None:
        assert (self._state, state) in LINK_TRANSITIONS, (self._name, self._state, state)
        self._state = state
