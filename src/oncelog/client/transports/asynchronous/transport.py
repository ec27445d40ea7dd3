"""Flows over asyncio. Any number may run at the same time on one transport."""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from oncelog.client.errors import AuthenticationFailed, ClientError, ConnectionLost, IllegalState, UnsupportedVersion
from oncelog.client.net.connection import BrokerConnection, handshake_bytes, in_flight
from oncelog.client.net.flows import (
    Callback,
    ConnectionUse,
    Draw,
    Effect,
    Flow,
    Handshake,
    InFlight,
    Now,
    PendingRequest,
    Send,
    Sleep,
    Wait,
    WallClock,
)
from oncelog.client.net.settings import ClientSettings
from oncelog.client.requests import ApiRequest
from oncelog.client.transports.sessions import (
    UNREACHABLE,
    begin_log_in,
    closing_reason,
    context_for,
    forget_token,
    opening_failure,
    renewal_ms,
)
from oncelog.client.values import Address
from oncelog.security.values import Login
from oncelog.wire import FRAME_LENGTH, WireError, frame_bytes

T = TypeVar("T")
READ_BUFFER_BYTES = 1024 * 1024


def wall_clock_ms() -> int:
    """Milliseconds since 1970, as record timestamps count them."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> float:
    return time.monotonic() * 1000


class AsyncLink:
    """An open stream, the connection that gives its bytes a meaning, and the task that reads it."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        connection: BrokerConnection,
        use: ConnectionUse,
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.connection = connection
        self.use = use
        self.reading: asyncio.Task[None] | None = None
        self.renew_at_ms = float("inf")

    async def frame(self, measure: Callable[[bytes], int] = frame_bytes) -> bytes:
        """The next frame. Raises OSError, EOFError and what `measure` does."""
        return await self.reader.readexactly(measure(await self.reader.readexactly(FRAME_LENGTH.size)))

    async def handshake(self) -> None:
        while True:
            self.writer.writelines(self.connection.handshake_request())  # type: ignore[arg-type]
            if self.connection.take_handshake(await self.frame(handshake_bytes)):
                return

    async def log_in(self, login: Login, timeout_s: float) -> None:
        """Authenticate, for the first time or again, while the answers are being read.

        Raises AuthenticationFailed, ConnectionLost, UnsupportedVersion.
        """
        steps = await asyncio.to_thread(begin_log_in, self.connection.address, login, timeout_s)
        request = next(steps)
        while True:
            answer = await self._ask(request)
            try:
                request = steps.send(answer)
            except StopIteration as end:
                self.renew_at_ms = renewal_ms(end.value)
                return
            except AuthenticationFailed:
                forget_token(login)
                raise

    async def _ask(self, request: ApiRequest) -> Any:
        pending = PendingRequest(self.connection.address, request, self.use)
        answered = asyncio.get_running_loop().create_future()
        pending.on_done = partial(_settle, answered)
        self.writer.writelines(self.connection.send(pending))  # type: ignore[arg-type]
        await answered
        return pending.result()


def _settle(happened: asyncio.Future[None]) -> None:
    if not happened.done():
        happened.set_result(None)


class AsyncTransport:
    """Runs flows as tasks of the running event loop."""

    def __init__(self, settings: ClientSettings) -> None:
        """Raises ValueError for a file that the settings name and that is no good."""
        self._settings = settings
        self._context = context_for(settings.security)
        self._links: dict[tuple[Address, ConnectionUse], AsyncLink] = {}
        self._connecting: dict[tuple[Address, ConnectionUse], asyncio.Lock] = {}
        self._opening: dict[tuple[Address, ConnectionUse], list[tuple[PendingRequest, float]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._was_woken = False
        self.is_closed = False
        self._wake_up: Callable[[], None] | None = None
        self._waiting: set[Callable[[], None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def require_loop(self) -> None:
        """Raises IllegalState on an event loop that is not the one that used this first."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        if self._loop is not loop:
            fate = ", which is closed" if self._loop.is_closed() else ""
            raise IllegalState(
                f"this client is for the event loop that used it first{fate}: another loop makes its own"
            )

    async def run(self, flow: Flow[T]) -> T:
        """Carry a flow to its end and return its result.

        Raises IllegalState after `close`, and when it was called meanwhile, and on another event loop.
        """
        try:
            self.require_loop()
            if self.is_closed:
                raise IllegalState("this client was closed")
            resume: Callable[[], Effect] = partial(flow.send, None)
            while True:
                try:
                    effect = resume()
                except StopIteration as end:
                    result: T = end.value
                    return result
                resume = await self._performed(flow, effect)
                if self.is_closed:
                    raise IllegalState("this client was closed meanwhile")
        finally:
            flow.close()

    def wake(self) -> None:
        """End the wait that asked for it, or the next one that will."""
        self._was_woken = True
        if self._wake_up is not None:
            self._wake_up()

    async def close(self) -> None:
        """Raises IllegalState on another event loop, unless the one that used this is closed and has nothing to end."""
        if self._loop is not None and not self._loop.is_closed():
            self.require_loop()
        self.is_closed = True
        for task in list(self._tasks):
            task.cancel()
        for link in list(self._links.values()):
            self._drop(link, "this client was closed")
        for end_wait in list(self._waiting):
            end_wait()
        await asyncio.sleep(0)

    async def _performed(self, flow: Flow[Any], effect: Effect) -> Callable[[], Effect]:
        try:
            value = await self._perform(effect)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the flow decides what it means
            return partial(flow.throw, error)
        return partial(flow.send, value)

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
            case Handshake():
                return (await self._link(effect.address, ConnectionUse.PROMPT, effect.timeout_ms)).connection.handshake
            case InFlight():
                return in_flight(link.connection for link in self._links.values())
            case WallClock():
                return wall_clock_ms()
            case Callback():
                result = effect.function()
                return await result if inspect.isawaitable(result) else result

    async def _send(self, effect: Send) -> PendingRequest:
        timeout_ms = self._settings.request_timeout_ms if effect.timeout_ms is None else effect.timeout_ms
        pending = PendingRequest(effect.address, effect.request, effect.use)
        name = effect.address, effect.use
        link = self._links.get(name)
        if link is None or name in self._opening or monotonic_ms() >= link.renew_at_ms:
            self._send_when_open(pending, timeout_ms)
        else:
            self._send_over(link, pending, timeout_ms)
            if not effect.request.expects_answer and not pending.is_done:
                await self._drain(link, pending, timeout_ms)
        return pending

    def _send_when_open(self, pending: PendingRequest, timeout_ms: float) -> None:
        """Send in order once there is a connection. Requests to other brokers do not wait for this one."""
        name = pending.address, pending.use
        is_first = name not in self._opening
        self._opening.setdefault(name, []).append((pending, timeout_ms))
        if is_first:
            task = asyncio.get_running_loop().create_task(self._open_for(name, timeout_ms))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _open_for(self, name: tuple[Address, ConnectionUse], timeout_ms: float) -> None:
        failure: ClientError | None = None
        link: AsyncLink | None = None
        try:
            link = await self._link(*name, timeout_ms)
        except ClientError as error:
            failure = error
        finally:
            waiting = self._opening.pop(name)
            for pending, pending_timeout_ms in waiting:
                if link is not None:
                    self._send_over(link, pending, pending_timeout_ms)
                    if not pending.request.expects_answer and not pending.is_done:
                        pending.answer(None)
                    if pending.on_done is not None:
                        pending.on_done()  # its deadline is known only now
                else:
                    pending.fail(failure or ConnectionLost(f"{name[0]}: this client was closed", sent=False))

    def _send_over(self, link: AsyncLink, pending: PendingRequest, timeout_ms: float) -> None:
        pending.deadline_ms = monotonic_ms() + timeout_ms
        try:
            chunks = link.connection.send(pending)
        except UnsupportedVersion as error:
            pending.fail(error)
            return
        link.writer.writelines(chunks)  # type: ignore[arg-type]

    async def _drain(self, link: AsyncLink, pending: PendingRequest, timeout_ms: float) -> None:
        """Wait until the broker takes what is sent without an answer, which nothing else limits."""
        try:
            await asyncio.wait_for(link.writer.drain(), timeout_ms / 1000)
        except (OSError, TimeoutError) as error:
            self._drop(link, f"sending failed: {error}")
            pending.fail(ConnectionLost(f"{pending.address}: sending failed: {error}", sent=True))
        else:
            pending.answer(None)

    async def _link(self, address: Address, use: ConnectionUse, timeout_ms: float) -> AsyncLink:
        """The link to an address, made if there is none. Raises ConnectionLost, AuthenticationFailed, UnsupportedVersion."""
        name = address, use
        async with self._connecting.setdefault(name, asyncio.Lock()):
            link = self._links.get(name)
            if link is not None and monotonic_ms() >= link.renew_at_ms:
                link = await self._renewed(link)
            return link or await self._connect(address, use, min(timeout_ms, self._settings.connect_timeout_ms))

    async def _connect(self, address: Address, use: ConnectionUse, timeout_ms: float) -> AsyncLink:
        timeout_s = timeout_ms / 1000
        security = self._settings.security
        connection = BrokerConnection(address, self._settings.client_id)
        try:
            reader, writer = await asyncio.wait_for(
                asyncio.open_connection(*address, limit=READ_BUFFER_BYTES, ssl=self._context), timeout_s
            )
        except TimeoutError as error:
            raise ConnectionLost(f"{address}: no connection in time", sent=False) from error
        except UNREACHABLE as error:
            if self._context is None or not isinstance(error, OSError):
                raise ConnectionLost(f"{address}: {error}", sent=False) from error
            raise opening_failure(connection, security, error) from error
        link = AsyncLink(reader, writer, connection, use)
        try:
            await asyncio.wait_for(link.handshake(), timeout_s)
        except (OSError, EOFError, WireError, TimeoutError) as error:
            writer.close()
            raise opening_failure(connection, security, error) from error
        except BaseException:
            writer.close()
            raise
        if self.is_closed:
            writer.close()
            raise ConnectionLost(f"{address}: this client was closed", sent=False)
        link.reading = asyncio.create_task(self._read(link))
        if security.login is not None:
            await self._log_in(link, security.login, timeout_s)
        self._links[address, use] = link
        return link

    async def _log_in(self, link: AsyncLink, login: Login, timeout_s: float) -> None:
        """Raises AuthenticationFailed, ConnectionLost, UnsupportedVersion; the link is over then."""
        try:
            await asyncio.wait_for(link.log_in(login, timeout_s), timeout_s)
        except TimeoutError:
            reason = "nobody answered the log-in in time"
            self._drop(link, reason)
            raise ConnectionLost(f"{link.connection.address}: {reason}", sent=False) from None
        except ConnectionLost as lost:
            self._drop(link, str(lost))
            # What was sent is the log-in: nothing that it stands before.
            raise ConnectionLost(str(lost), sent=False) from lost
        except BaseException as error:
            self._drop(link, str(error))
            raise

    async def _renewed(self, link: AsyncLink) -> AsyncLink | None:
        """The same link with a new session, or none if it has ended. Raises AuthenticationFailed."""
        login = self._settings.security.login
        assert login is not None, "a session that ends was begun with a log-in"
        try:
            await self._log_in(link, login, self._settings.request_timeout_ms / 1000)
        except ConnectionLost:
            return None
        return link

    async def _read(self, link: AsyncLink) -> None:
        try:
            while True:
                link.connection.receive(await link.frame())
        except EOFError:
            self._drop(link, closing_reason(link.connection, self._settings.security))
        except (OSError, WireError) as error:
            self._drop(link, str(error))

    async def _wait(self, effect: Wait) -> list[PendingRequest]:
        until_ms = float("inf") if effect.timeout_ms is None else monotonic_ms() + effect.timeout_ms
        while True:
            done = [pending for pending in effect.awaited if pending.is_done]
            now_ms = monotonic_ms()
            is_over = bool(done) or now_ms >= until_ms or (effect.until_woken and self._was_woken) or self.is_closed
            # A late answer may be here and not read yet: the loop gets a turn before its request is given up.
            if is_over and not any(pending.is_late(now_ms) for pending in effect.awaited):
                self._was_woken = self._was_woken and not effect.until_woken
                return done
            await self._something(effect, min([until_ms, *[pending.deadline_ms for pending in effect.awaited]]))
            self._give_up_late(effect.awaited, monotonic_ms())

    async def _something(self, effect: Wait, deadline_ms: float) -> None:
        """Return when a request is answered, at the deadline, or when woken if that was asked for."""
        loop = asyncio.get_running_loop()
        happened = loop.create_future()
        happen = partial(_settle, happened)

        for pending in effect.awaited:
            pending.on_done = happen
        if effect.until_woken:
            self._wake_up = happen
        self._waiting.add(happen)
        timer = None
        if deadline_ms != float("inf"):
            timer = loop.call_later(max(0.0, deadline_ms - monotonic_ms()) / 1000, happen)
        try:
            await happened
        finally:
            self._waiting.discard(happen)
            if timer is not None:
                timer.cancel()

    def _give_up_late(self, awaited: tuple[PendingRequest, ...], now_ms: float) -> None:
        """An answer that is late ends its connection: those behind it would be late as well."""
        for pending in awaited:
            if pending.is_late(now_ms) and (pending.address, pending.use) in self._links:
                self._drop(
                    self._links[pending.address, pending.use], f"no answer to {pending.request.api.name} in time"
                )

    def _drop(self, link: AsyncLink, reason: str) -> None:
        name = link.connection.address, link.use
        if self._links.get(name) is link:
            del self._links[name]
        if link.reading is not None and link.reading is not asyncio.current_task():
            link.reading.cancel()
        if self._loop is None or not self._loop.is_closed():
            link.writer.close()
        link.connection.lose(reason)
