"""Conversations over asyncio. Any number may run at the same time on one transport."""

from __future__ import annotations

import asyncio
import inspect
import random
import struct
import time
from collections.abc import Callable
from typing import Any, TypeVar

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
READ_BUFFER_BYTES = 1024 * 1024


def wall_clock_ms() -> int:
    """Milliseconds since 1970, as record timestamps count them."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> float:
    return time.monotonic() * 1000


class Link:
    """An open stream, the connection that gives its bytes a meaning, and the task that reads it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: Connection, lane: Lane
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.connection = connection
        self.lane = lane
        self.reading: asyncio.Task[None] | None = None

    async def frame(self) -> bytes:
        """The next frame. Raises OSError, EOFError or WireError."""
        (frame_bytes,) = LENGTH.unpack(await self.reader.readexactly(LENGTH.size))
        if not 4 <= frame_bytes <= FRAME_BYTES_MAX:
            raise WireError(f"a frame of {frame_bytes} bytes")
        return await self.reader.readexactly(frame_bytes)


class AsyncTransport:
    """Runs conversations as tasks of the running event loop."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._links: dict[tuple[Address, Lane], Link] = {}
        self._connecting: dict[tuple[Address, Lane], asyncio.Lock] = {}
        self._was_woken = False
        self._wake_up: Callable[[], None] | None = None

    async def run(self, conversation: Conversation[T]) -> T:
        """Carry a conversation to its end and return its result."""
        try:
            resume: Callable[[], Effect] = conversation.__next__
            while True:
                try:
                    effect = resume()
                except StopIteration as end:
                    result: T = end.value
                    return result
                resume = await self._performed(conversation, effect)
        finally:
            conversation.close()

    def wake(self) -> None:
        """End the wait that asked for it, or the next one that will."""
        self._was_woken = True
        if self._wake_up is not None:
            self._wake_up()

    async def close(self) -> None:
        for link in list(self._links.values()):
            self._drop(link, "this client was closed")
        await asyncio.sleep(0)

    async def _performed(self, conversation: Conversation[Any], effect: Effect) -> Callable[[], Effect]:
        try:
            value = await self._perform(effect)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the conversation decides what it means
            thrown = error
            return lambda: conversation.throw(thrown)
        return lambda: conversation.send(value)

    async def _perform(self, effect: Effect) -> Any:
        match effect:
            case Send():
                return await self._send(effect)
            case Wait():
                return await self._wait(effect)
            case Sleep():
                await asyncio.sleep(random.uniform(effect.low_ms, effect.high_ms) / 1000)
                return None
            case Now():
                return monotonic_ms()
            case Draw():
                return random.uniform(effect.low, effect.high)
            case Greet():
                return (await self._link(effect.address, Lane.PROMPT)).connection.greeting
            case WallClock():
                return wall_clock_ms()
            case Call():
                result = effect.function()
                return await result if inspect.isawaitable(result) else result

    async def _send(self, effect: Send) -> Ticket:
        timeout_ms = self._settings.request_timeout_ms if effect.timeout_ms is None else effect.timeout_ms
        ticket = Ticket(effect.address, effect.request, effect.lane)
        ticket.deadline_ms = monotonic_ms() + timeout_ms
        try:
            link = await self._link(effect.address, effect.lane)
            chunks = link.connection.send(ticket)
        except (ConnectionLost, UnsupportedVersion) as error:
            ticket.fail(error)
            return ticket
        link.writer.writelines(chunks)  # type: ignore[arg-type]
        try:
            await asyncio.wait_for(link.writer.drain(), timeout_ms / 1000)
        except (OSError, TimeoutError) as error:
            self._drop(link, f"sending failed: {error}")
            if not ticket.is_done:
                ticket.fail(ConnectionLost(f"{effect.address}: sending failed: {error}", sent=True))
            return ticket
        if not effect.request.expects_answer:
            ticket.answer(None)
        return ticket

    async def _link(self, address: Address, lane: Lane) -> Link:
        """The link to an address, made if there is none. Raises ConnectionLost."""
        name = address, lane
        async with self._connecting.setdefault(name, asyncio.Lock()):
            return self._links.get(name) or await self._connect(address, lane)

    async def _connect(self, address: Address, lane: Lane) -> Link:
        timeout_s = self._settings.connect_timeout_ms / 1000
        try:
            reader, writer = await asyncio.wait_for(
                asyncio.open_connection(*address, limit=READ_BUFFER_BYTES), timeout_s
            )
        except (OSError, TimeoutError) as error:
            raise ConnectionLost(f"{address}: {error or 'no connection in time'}", sent=False) from error
        link = Link(reader, writer, Connection(address, self._settings.client_id), lane)
        try:
            await asyncio.wait_for(self._greet(link), timeout_s)
        except (OSError, EOFError, WireError, TimeoutError) as error:
            writer.close()
            raise ConnectionLost(f"{address}: no greeting: {error or 'none in time'}", sent=False) from error
        self._links[address, lane] = link
        link.reading = asyncio.create_task(self._read(link))
        return link

    async def _greet(self, link: Link) -> None:
        while True:
            link.writer.writelines(link.connection.hello())  # type: ignore[arg-type]
            if link.connection.greeted(await link.frame()):
                return

    async def _read(self, link: Link) -> None:
        try:
            while True:
                link.connection.receive(await link.frame())
        except EOFError:
            self._drop(link, "the broker closed the connection")
        except (OSError, WireError) as error:
            self._drop(link, str(error))

    async def _wait(self, effect: Wait) -> list[Ticket]:
        until_ms = float("inf") if effect.timeout_ms is None else monotonic_ms() + effect.timeout_ms
        while True:
            done = [ticket for ticket in effect.tickets if ticket.is_done]
            now_ms = monotonic_ms()
            if done or now_ms >= until_ms or (effect.until_woken and self._was_woken):
                self._was_woken = self._was_woken and not effect.until_woken
                return done
            await self._something(effect, min([until_ms, *[ticket.deadline_ms for ticket in effect.tickets]]))
            self._give_up_late(effect.tickets, monotonic_ms())

    async def _something(self, effect: Wait, deadline_ms: float) -> None:
        """Return when a ticket is done, at the deadline, or when woken if that was asked for."""
        loop = asyncio.get_running_loop()
        happened = loop.create_future()

        def happen() -> None:
            if not happened.done():
                happened.set_result(None)

        for ticket in effect.tickets:
            ticket.on_done = happen
        if effect.until_woken:
            self._wake_up = happen
        timer = None
        if deadline_ms != float("inf"):
            timer = loop.call_later(max(0.0, deadline_ms - monotonic_ms()) / 1000, happen)
        try:
            await happened
        finally:
            if timer is not None:
                timer.cancel()

    def _give_up_late(self, tickets: tuple[Ticket, ...], now_ms: float) -> None:
        """An answer that is late ends its connection: those behind it would be late as well."""
        for ticket in tickets:
            if not ticket.is_done and now_ms >= ticket.deadline_ms:
                self._drop(self._links[ticket.address, ticket.lane], f"no answer to {ticket.request.api.name} in time")

    def _drop(self, link: Link, reason: str) -> None:
        name = link.connection.address, link.lane
        if self._links.get(name) is link:
            del self._links[name]
        if link.reading is not None and link.reading is not asyncio.current_task():
            link.reading.cancel()
        link.writer.close()
        link.connection.lose(reason)
