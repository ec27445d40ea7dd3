"""Conversations over plain sockets, on the calling thread."""

from __future__ import annotations

import random
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from typing_extensions import Buffer

from oncelog.client.connection import FRAME_BYTES_MAX, Connection
from oncelog.client.conversation import (
    Call,
    Conversation,
    Draw,
    Effect,
    Greet,
    Lane,
    Now,
    Send,
    Sleep,
    Ticket,
    Wait,
    WallClock,
)
from oncelog.client.errors import ConnectionLost, UnsupportedVersion
from oncelog.client.settings import ClientSettings
from oncelog.client.values import Address
from oncelog.wire import WireError

T = TypeVar("T")
LENGTH = struct.Struct(">i")
RECEIVE_BUFFER_BYTES = 4 * 1024 * 1024


def wall_clock_ms() -> int:
    """Milliseconds since 1970, as record timestamps count them."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> float:
    return time.monotonic() * 1000


class Incoming:
    """The frame that is being received, into a buffer of its size."""

    __slots__ = ("_length", "_target", "_view")

    def __init__(self) -> None:
        self._length: bytearray | None = None
        self._begin()

    def _begin(self) -> None:
        self._length = bytearray(LENGTH.size)
        self._target = self._length
        self._view = memoryview(self._target)

    def receive(self, connected: socket.socket) -> Buffer:
        """Return the next frame, waiting as long as the socket does. Raises OSError, WireError, EOFError."""
        while True:
            size_bytes = connected.recv_into(self._view)
            if size_bytes == 0:
                raise EOFError
            self._view = self._view[size_bytes:]
            if len(self._view):
                continue
            if self._length is None:
                frame = memoryview(self._target).toreadonly()
                self._begin()
                return frame
            (frame_bytes,) = LENGTH.unpack(self._length)
            if not 4 <= frame_bytes <= FRAME_BYTES_MAX:
                raise WireError(f"a frame of {frame_bytes} bytes")
            self._length = None
            self._target = bytearray(frame_bytes)
            self._view = memoryview(self._target)


class Link:
    """A connected socket and the connection that gives its bytes a meaning."""

    __slots__ = ("connection", "incoming", "lane", "socket")

    def __init__(self, connected: socket.socket, connection: Connection, lane: Lane) -> None:
        self.socket = connected
        self.connection = connection
        self.lane = lane
        self.incoming = Incoming()

    def send(self, chunks: list[Buffer]) -> None:
        """Send all of it, waiting as long as the socket's timeout allows. Raises OSError."""
        waiting = [memoryview(chunk) for chunk in chunks]
        while waiting:
            sent_bytes = self.socket.sendmsg(waiting[:1000])
            while waiting and sent_bytes >= len(waiting[0]):
                sent_bytes -= len(waiting.pop(0))
            if sent_bytes:
                waiting[0] = waiting[0][sent_bytes:]

    def is_closed(self) -> bool:
        """Whether the other side has ended an idle connection."""
        self.socket.settimeout(0)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True


class BlockingTransport:
    """Runs conversations on the calling thread, one at a time. Other threads may call `wake` and nothing else."""

    def __init__(self, settings: ClientSettings, lock: AbstractContextManager[object] | None = None) -> None:
        """`lock`, if given, is held while a conversation's own code runs, and never while it waits."""
        self._settings = settings
        self._lock = lock or nullcontext()
        self._links: dict[tuple[Address, Lane], Link] = {}
        self._was_woken = False
        self._selector = selectors.DefaultSelector()
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._wake_sender.setblocking(False)
        self._selector.register(self._wake_receiver, selectors.EVENT_READ, None)

    def run(self, conversation: Conversation[T]) -> T:
        """Carry a conversation to its end and return its result."""
        resume: Callable[[], Effect] = conversation.__next__
        while True:
            try:
                with self._lock:
                    effect = resume()
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                value = self._perform(effect)
            except Exception as error:  # noqa: BLE001 - whatever went wrong, the conversation decides what it means
                resume = _thrower(conversation, error)
            else:
                resume = _sender(conversation, value)

    def wake(self) -> None:
        """End a wait that asked for it. Safe from any thread."""
        try:
            self._wake_sender.send(b"\0")
        except OSError:
            return  # the pipe is full of wake-ups already, or closed

    def close(self) -> None:
        for link in list(self._links.values()):
            self._drop(link, "this client was closed")
        self._selector.close()
        self._wake_receiver.close()
        self._wake_sender.close()

    def _perform(self, effect: Effect) -> Any:
        match effect:
            case Send():
                return self._send(effect)
            case Wait():
                return self._wait(effect)
            case Sleep():
                time.sleep(random.uniform(effect.low_ms, effect.high_ms) / 1000)
                return None
            case Now():
                return monotonic_ms()
            case Draw():
                return random.uniform(effect.low, effect.high)
            case Greet():
                return self._link(effect.address, Lane.PROMPT).connection.greeting
            case WallClock():
                return wall_clock_ms()
            case Call():
                return effect.function()

    def _send(self, effect: Send) -> Ticket:
        timeout_ms = self._settings.request_timeout_ms if effect.timeout_ms is None else effect.timeout_ms
        ticket = Ticket(effect.address, effect.request, effect.lane)
        ticket.deadline_ms = monotonic_ms() + timeout_ms
        try:
            link = self._link(effect.address, effect.lane)
            chunks = link.connection.send(ticket)
        except (ConnectionLost, UnsupportedVersion) as error:
            ticket.fail(error)
            return ticket
        link.socket.settimeout(timeout_ms / 1000)
        try:
            link.send(chunks)
        except OSError as error:
            self._drop(link, f"sending failed: {error}")
            if not ticket.is_done:
                ticket.fail(ConnectionLost(f"{effect.address}: sending failed: {error}", sent=True))
            return ticket
        if not effect.request.expects_answer:
            ticket.answer(None)
        return ticket

    def _link(self, address: Address, lane: Lane) -> Link:
        """The link to an address, made if there is none. Raises ConnectionLost."""
        link = self._links.get((address, lane))
        if link is not None and not link.connection.in_flight and link.is_closed():
            self._drop(link, "the broker closed the connection")
            link = None
        return link or self._connect(address, lane)

    def _connect(self, address: Address, lane: Lane) -> Link:
        timeout_s = self._settings.connect_timeout_ms / 1000
        try:
            connected = socket.create_connection(address, timeout=timeout_s)
        except OSError as error:
            raise ConnectionLost(f"{address}: {error}", sent=False) from error
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = Link(connected, Connection(address, self._settings.client_id), lane)
        try:
            self._greet(link)
        except (OSError, EOFError, WireError) as error:
            connected.close()
            raise ConnectionLost(f"{address}: no greeting: {error or 'the connection ended'}", sent=False) from error
        self._links[address, lane] = link
        self._selector.register(connected, selectors.EVENT_READ, link)
        return link

    def _greet(self, link: Link) -> None:
        while True:
            link.send(link.connection.hello())
            if link.connection.greeted(link.incoming.receive(link.socket)):
                return

    def _wait(self, effect: Wait) -> list[Ticket]:
        until_ms = float("inf") if effect.timeout_ms is None else monotonic_ms() + effect.timeout_ms
        while True:
            if done := [ticket for ticket in effect.tickets if ticket.is_done]:
                return done
            now_ms = monotonic_ms()
            deadline_ms = min([until_ms, *[ticket.deadline_ms for ticket in effect.tickets]])
            if effect.until_woken and self._was_woken:
                self._was_woken = False
                return []
            self._take_events(max(0.0, deadline_ms - now_ms))
            now_ms = monotonic_ms()
            self._give_up_late(effect.tickets, now_ms)
            if now_ms >= until_ms:
                return [ticket for ticket in effect.tickets if ticket.is_done]

    def _take_events(self, timeout_ms: float) -> None:
        """Wait for bytes and take them in. A wake-up is kept for the wait that asks for it."""
        for key, _ in self._selector.select(None if timeout_ms == float("inf") else timeout_ms / 1000):
            if key.data is None:
                self._wake_receiver.recv(4096)
                self._was_woken = True
            else:
                self._receive(key.data)

    def _receive(self, link: Link) -> None:
        link.socket.settimeout(0)
        try:
            # Bytes that answer nothing, or the end of an idle connection, would be readable for ever if they stayed.
            while True:
                link.connection.receive(link.incoming.receive(link.socket))
                if not link.connection.in_flight:
                    return
        except BlockingIOError:
            return
        except EOFError:
            self._drop(link, "the broker closed the connection")
        except (OSError, WireError) as error:
            self._drop(link, str(error))

    def _give_up_late(self, tickets: tuple[Ticket, ...], now_ms: float) -> None:
        """An answer that is late ends its connection: those behind it would be late as well."""
        for ticket in tickets:
            if not ticket.is_done and now_ms >= ticket.deadline_ms:
                self._drop(self._links[ticket.address, ticket.lane], f"no answer to {ticket.request.api.name} in time")

    def _drop(self, link: Link, reason: str) -> None:
        name = link.connection.address, link.lane
        if self._links.get(name) is link:
            del self._links[name]
            self._selector.unregister(link.socket)
        link.socket.close()
        link.connection.lose(reason)


def _sender(conversation: Conversation[Any], value: Any) -> Callable[[], Effect]:
    return lambda: conversation.send(value)


def _thrower(conversation: Conversation[Any], error: Exception) -> Callable[[], Effect]:
    return lambda: conversation.throw(error)


class BackgroundRun:
    """A thread that carries one conversation to its end, and then calls `ended`."""

    def __init__(
        self, transport: BlockingTransport, conversation: Conversation[None], ended: Callable[[], None], name: str
    ) -> None:
        self._transport = transport
        self._conversation = conversation
        self._ended = ended
        self.is_over = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        try:
            self._transport.run(self._conversation)
        finally:
            self.is_over = True
            self._ended()
