"""Connections between processes: bytes arrive in order, late and in pieces, and a connection may end at any byte."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from oncelog.client.values import Address
from oncelog.simulation.events import EventQueue, Process
from oncelog.wire import FRAME_LENGTH, frame_bytes

LATENCY_MS = (0.05, 1.5)
SPIKE_MS = (5.0, 400.0)
SPLIT_SHARE = 0.05
KEEP_ALIVE_MS = 120_000.0
"""After this time the operating system gives up a connection whose other end is silent."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A process that accepts connections. `accept` gets its end of one, and says what is to hear from it."""

    process: Process
    accept: Callable[[StreamEnd], None]


class StreamEnd:
    """One process's end of a connection. `received` and `ended` are set by it."""

    __slots__ = ("_in_flight", "_last_arrival_ms", "_network", "ended", "is_closed", "other", "process", "received")

    def __init__(self, network: Network, process: Process) -> None:
        self._network = network
        self.process = process
        self.other: StreamEnd = self
        self.is_closed = False
        self.received: Callable[[bytes], None] = lambda _: None
        self.ended: Callable[[str], None] = lambda _: None
        self._in_flight: deque[bytes] = deque()
        self._last_arrival_ms = 0.0

    def send(self, data: bytes) -> None:
        """Bytes for the other end; they come in this order."""
        if self.is_closed:
            return
        other = self.other
        for piece in self._network.pieces(data):
            other._in_flight.append(piece)
            other._arrive("bytes", other._deliver)

    def close(self) -> None:
        """The other end hears of it after the bytes that were sent before."""
        if not self.is_closed:
            self.is_closed = True
            self._network.forget(self)
            self.other._arrive("end", lambda: self.other._end("the other end closed the connection"))

    def cut(self, bytes_left: int) -> None:
        """After so many more bytes there is no connection any more."""
        while self._in_flight and bytes_left > 0 and not self.is_closed:
            piece = self._in_flight.popleft()[:bytes_left]
            bytes_left -= len(piece)
            self.received(piece)
        self._end("the connection was cut")

    def hold_back(self, until_ms: float) -> None:
        """Delay what the other end sends from now on, also when that end is closed long before."""
        self._last_arrival_ms = max(self._last_arrival_ms, until_ms)

    def vanish(self) -> None:
        """Nothing comes any more, and nobody is told before the operating system gives up."""
        for end in (self, self.other):
            end.received = lambda _: None
            if not end.is_closed:
                end.process.after(KEEP_ALIVE_MS, "keep-alive", end.give_up)

    def give_up(self) -> None:
        self._end("nobody answers")

    @property
    def in_flight_bytes(self) -> int:
        return sum(map(len, self._in_flight))

    def _arrive(self, label: str, callback: Callable[[], None]) -> None:
        network = self._network
        arrival_ms = network.arrival_ms(self.other.process.node, self.process.node)
        self._last_arrival_ms = max(self._last_arrival_ms, arrival_ms)
        queue = network.queue
        queue.at(self._last_arrival_ms, f"{self.process.node} {label}", callback, self.process)

    def _deliver(self) -> None:
        if self.is_closed or not self._in_flight:
            return
        self.received(self._in_flight.popleft())

    def _end(self, reason: str) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._network.forget(self)
            self.ended(reason)


class Network:
    """Any node reaches any other that listens, unless the two are parted."""

    def __init__(self, queue: EventQueue, random: Random) -> None:
        self.queue = queue
        self.spike_share = 0.0
        self._random = random
        self._listeners: dict[Address, Listener] = {}
        self._ends: dict[StreamEnd, None] = {}
        self._parted_until_ms: dict[tuple[str, str], float] = {}

    def listen(self, address: Address, listener: Listener) -> None:
        self._listeners[address] = listener

    def connect(self, process: Process, address: Address, opened: Callable[[StreamEnd | None], None]) -> None:
        """Call `opened` with this process's end, or with None where nobody listens."""
        there_ms = self.arrival_ms(process.node, address.host) - self.queue.now_ms

        def arrive() -> None:
            listener = self._listeners.get(address)
            back_ms = self.arrival_ms(address.host, process.node) - self.queue.now_ms
            if listener is None or not listener.process.is_alive:
                process.after(back_ms, "refused", lambda: opened(None))
                return
            here, there = StreamEnd(self, process), StreamEnd(self, listener.process)
            here.other, there.other = there, here
            self._ends[here] = self._ends[there] = None
            listener.process.run(lambda: listener.accept(there))
            process.after(back_ms, "connected", lambda: opened(here))

        self.queue.after(there_ms, f"{process.node} connects to {address}", arrive)

    def part(self, one: str, other: str, until_ms: float) -> None:
        """Nothing comes from either node to the other until then; it comes late, as a retransmission does."""
        self.part_one_way(one, other, until_ms)
        self.part_one_way(other, one, until_ms)

    def part_one_way(self, sender: str, receiver: str, until_ms: float) -> None:
        """Nothing comes from the one to the other until then; what goes the other way comes."""
        self._parted_until_ms[sender, receiver] = until_ms

    def heal(self) -> None:
        """Nodes are parted no more, and nothing is late."""
        self._parted_until_ms.clear()
        self.spike_share = 0.0

    def ends_of(self, node: str) -> list[StreamEnd]:
        return [end for end in self._ends if end.process.node == node]

    def process_ended(self, process: Process, *, silently: bool) -> None:
        """Its connections are over; where the power was cut, nobody says so to the other ends."""
        for end in [end for end in self._ends if end.process is process]:
            if silently:
                end.is_closed = True
                end.vanish()
            else:
                end.close()

    def forget(self, end: StreamEnd) -> None:
        self._ends.pop(end, None)

    def arrival_ms(self, sender: str, receiver: str) -> float:
        low, high = SPIKE_MS if self._random.random() < self.spike_share else LATENCY_MS
        latency_ms = self._random.uniform(low, high)
        begin_ms = self.queue.now_ms
        if self._parted_until_ms:
            begin_ms = max(begin_ms, self._parted_until_ms.get((sender, receiver), 0.0))
        return begin_ms + latency_ms

    def pieces(self, data: bytes) -> list[bytes]:
        """A stream keeps no borders between writes."""
        if len(data) < 2 or self._random.random() >= SPLIT_SHARE:
            return [data]
        middle = self._random.randrange(1, len(data))
        return [data[:middle], data[middle:]]


class FrameBuffer:
    """The bytes of an unfinished frame."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = bytearray()

    @property
    def is_empty(self) -> bool:
        return not self._rest

    def take(self, data: bytes) -> Iterator[bytes]:
        """The frames that are whole with these bytes, without their lengths. Raises WireError for a length that no frame has."""
        if not self._rest and _is_whole_frame(data):
            yield data[FRAME_LENGTH.size :]
            return
        self._rest += data
        while len(self._rest) >= FRAME_LENGTH.size:
            stop = FRAME_LENGTH.size + frame_bytes(bytes(self._rest[: FRAME_LENGTH.size]))
            if len(self._rest) < stop:
                break
            frame = bytes(self._rest[FRAME_LENGTH.size : stop])
            del self._rest[:stop]
            yield frame


def _is_whole_frame(data: bytes) -> bool:
    """Nearly every write is one frame, and arrives as it was written."""
    return len(data) > FRAME_LENGTH.size and FRAME_LENGTH.size + frame_bytes(data[: FRAME_LENGTH.size]) == len(data)
