"""Flows over plain sockets, on the calling thread."""

from __future__ import annotations

import random
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from oncelog.client.errors import AuthenticationFailed, ClientError, ConnectionLost, IllegalState, UnsupportedVersion
from oncelog.client.net.connection import in_flight
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
from oncelog.client.transports.blocking.link import BlockingLink, Opening
from oncelog.client.transports.blocking.ownership import OwnedLock, Ownership
from oncelog.client.transports.sessions import closing_reason, context_for
from oncelog.client.values import Address
from oncelog.wire import WireError

T = TypeVar("T")
OPENING_GRACE_MS = 200
"""Time for the connecting thread to report its own error, which says more. A resolver of names may keep it longer."""


def wall_clock_ms() -> int:
    """Milliseconds since 1970, as record timestamps count them."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> float:
    return time.monotonic() * 1000


class BlockingTransport:
    """Runs flows on the calling thread, one at a time. Other threads may call `wake` and nothing else."""

    def __init__(self, settings: ClientSettings, lock: OwnedLock | None = None) -> None:
        """`lock`, if given, is held while a flow's own code runs, and never while it waits.

        Raises ValueError for a file that the settings name and that is no good.
        """
        self._settings = settings
        self._context = context_for(settings.security)
        self._ownership = Ownership()
        self._lock = lock or OwnedLock(self._ownership)
        self._links: dict[tuple[Address, ConnectionUse], BlockingLink] = {}
        self._openings: dict[tuple[Address, ConnectionUse], Opening] = {}
        self._finished: deque[Opening] = deque()
        self._was_woken = False
        self.is_closed = False
        self._closing = threading.RLock()
        self._last_thread: int | None = None
        self._runs = 0
        self._is_released = False
        self._selector = selectors.DefaultSelector()
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._wake_sender.setblocking(False)
        self._selector.register(self._wake_receiver, selectors.EVENT_READ, None)

    def run(self, flow: Flow[T]) -> T:
        """Carry a flow to its end and return its result.

        Raises IllegalState after `close`, and when it was called meanwhile, and in a process that was forked.
        """
        if not self._ownership.is_ours:
            flow.close()
        self._ownership.require()
        is_counted = False
        try:
            with self._closing:
                if self._is_over:
                    raise IllegalState("this client was closed")
                self._runs += 1
                is_counted = True
            resume: Callable[[], Effect] = partial(flow.send, None)
            while True:
                try:
                    with self._lock.ours():
                        effect = resume()
                except StopIteration as end:
                    result: T = end.value
                    return result
                resume = self._performed(flow, effect)
                if self._is_over:
                    raise IllegalState("this client was closed meanwhile")
        finally:
            try:
                with self._lock.ours():
                    flow.close()
            finally:
                with self._closing:
                    self._runs -= is_counted
                    self._release_if_over()

    def _performed(self, flow: Flow[Any], effect: Effect) -> Callable[[], Effect]:
        try:
            value = self._perform(effect)
        except ClientError as error:
            return partial(flow.throw, error)
        except BaseException as error:  # noqa: BLE001 - whatever went wrong, the flow decides what it means
            if not isinstance(effect, Callback):
                self._start_over()
            return partial(flow.throw, error)
        return partial(flow.send, value)

    def _start_over(self) -> None:
        """A signal's handler has raised while something was sent or received: how far that came is not known any more."""
        for link in list(self._links.values()):
            self._drop(link, "the call was interrupted")
        openings, self._openings = self._openings, {}
        for opening in openings.values():
            opening.abandon()
            for pending, _ in opening.waiting:
                if not pending.is_done:
                    pending.fail(ConnectionLost(f"{pending.address}: the call was interrupted", sent=False))

    def wake(self) -> None:
        """End a wait that asked for it. Safe from any thread."""
        self._was_woken = True
        self._interrupt()

    def _interrupt(self) -> None:
        try:
            self._wake_sender.send(b"\0")
        except OSError:
            return  # the pipe is full of wake-ups already, or closed

    def leave_to_this_thread(self) -> None:
        """End the calls of other threads and refuse new ones: this thread has something to do before it closes."""
        with self._closing:
            if self._last_thread is None:
                self._last_thread = threading.get_ident()
            self._interrupt()

    @property
    def _is_over(self) -> bool:
        return self.is_closed or self._last_thread not in (None, threading.get_ident())

    def close(self) -> None:
        """End the call that waits, and close what it uses then. Safe from any thread and from a signal's handler.

        In a forked process this closes what was inherited, and the process that it came from goes on.
        """
        with self._closing:
            self.is_closed = True
            self._interrupt()
            self._release_if_over()

    def _release_if_over(self) -> None:
        if not self.is_closed or self._runs or self._is_released:
            return
        self._is_released = True
        for link in list(self._links.values()):
            self._drop(link, "this client was closed")
        for opening in self._openings.values():
            opening.abandon()
        self._openings.clear()
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
            case Handshake():
                return self._link(effect.address, ConnectionUse.PROMPT, effect.timeout_ms).connection.handshake
            case InFlight():
                return in_flight(link.connection for link in self._links.values())
            case WallClock():
                return wall_clock_ms()
            case Callback():
                return effect.function()

    def _send(self, effect: Send) -> PendingRequest:
        timeout_ms = self._settings.request_timeout_ms if effect.timeout_ms is None else effect.timeout_ms
        pending = PendingRequest(effect.address, effect.request, effect.use)
        name = effect.address, effect.use
        try:
            link = None if name in self._openings else self._open_link(*name)
        except AuthenticationFailed as refused:
            pending.fail(refused)
            return pending
        if link is not None:
            self._send_over(link, pending, timeout_ms)
            return pending
        opening = self._openings.get(name)
        connect_ms = min(timeout_ms, self._settings.connect_timeout_ms)
        pending.deadline_ms = monotonic_ms() + connect_ms + OPENING_GRACE_MS
        if opening is None:
            opening = self._openings[name] = Opening(*name, self._settings, self._context, connect_ms, self._opened)
        opening.waiting.append((pending, timeout_ms))
        return pending

    def _send_over(self, link: BlockingLink, pending: PendingRequest, timeout_ms: float) -> None:
        pending.deadline_ms = monotonic_ms() + timeout_ms
        try:
            chunks = link.connection.send(pending)
        except UnsupportedVersion as error:
            pending.fail(error)
            return
        link.socket.settimeout(timeout_ms / 1000)
        try:
            link.send(chunks)
        except OSError as error:
            self._drop(link, f"sending failed: {error}")
            if not pending.is_done:
                pending.fail(ConnectionLost(f"{pending.address}: sending failed: {error}", sent=True))
            return
        if not pending.request.expects_answer:
            pending.answer(None)

    def _opened(self, opening: Opening) -> None:
        """Take a finished connection attempt. Called on the thread that connects."""
        self._finished.append(opening)
        self._interrupt()

    def _take_openings(self) -> None:
        while self._finished:
            opening = self._finished.popleft()
            if self._openings.get(opening.name) is not opening:
                opening.abandon()
                continue
            link = self._links.get(opening.name)
            if link is not None:
                opening.abandon()
            elif opening.link is not None:
                link = opening.link
                self._register(link)
            for pending, timeout_ms in opening.waiting:
                if link is not None and not pending.is_done:
                    self._send_over(link, pending, timeout_ms)
                elif not pending.is_done:
                    pending.fail(opening.failure)
            del self._openings[opening.name]

    def _link(self, address: Address, use: ConnectionUse, timeout_ms: float) -> BlockingLink:
        """The link to an address, made if there is none. Raises ConnectionLost, AuthenticationFailed, UnsupportedVersion."""
        link = self._open_link(address, use)
        if link is None:
            timeout_ms = min(timeout_ms, self._settings.connect_timeout_ms)
            link = BlockingLink.open(address, use, self._settings, self._context, timeout_ms)
            self._register(link)
        return link

    def _open_link(self, address: Address, use: ConnectionUse) -> BlockingLink | None:
        """The link to an address, if it is of use. Raises AuthenticationFailed."""
        link = self._links.get((address, use))
        if link is not None and not link.connection.in_flight and link.is_closed():
            self._drop(link, "the broker closed the connection")
            link = None
        if link is not None and monotonic_ms() >= link.renew_at_ms:
            link = self._renewed(link)
        return link

    def _register(self, link: BlockingLink) -> None:
        self._links[link.connection.address, link.use] = link
        self._selector.register(link.socket, selectors.EVENT_READ, link)

    def _renewed(self, link: BlockingLink) -> BlockingLink | None:
        """The same link with a new session, or none if it has ended. Raises AuthenticationFailed."""
        login = self._settings.security.login
        assert login is not None, "a session that ends was begun with a log-in"
        try:
            link.log_in(login, self._settings.request_timeout_ms / 1000)
        except AuthenticationFailed as refused:
            self._drop(link, str(refused))
            raise
        except (ConnectionLost, OSError, EOFError, WireError) as error:
            self._drop(link, f"authenticating again failed: {error or 'the connection ended'}")
            return None
        return link

    def _wait(self, effect: Wait) -> list[PendingRequest]:
        until_ms = float("inf") if effect.timeout_ms is None else monotonic_ms() + effect.timeout_ms
        while True:
            now_ms = monotonic_ms()
            done = [pending for pending in effect.awaited if pending.is_done]
            has_late = any(pending.is_late(now_ms) for pending in effect.awaited)
            if (done and not has_late) or self._is_over:
                return done
            deadline_ms = min([until_ms, *[pending.deadline_ms for pending in effect.awaited]])
            if effect.until_woken and self._was_woken and not has_late:
                self._was_woken = False
                return []
            self._take_events(max(0.0, deadline_ms - now_ms))
            now_ms = monotonic_ms()
            self._give_up_late(effect.awaited, now_ms)
            if now_ms >= until_ms:
                return [pending for pending in effect.awaited if pending.is_done]

    def _take_events(self, timeout_ms: float) -> None:
        """Wait for bytes and take them in. A wake-up is kept for the wait that asks for it."""
        for key, _ in self._selector.select(None if timeout_ms == float("inf") else timeout_ms / 1000):
            if key.data is None:
                self._wake_receiver.recv(4096)
                self._take_openings()
            else:
                self._receive(key.data)

    def _receive(self, link: BlockingLink) -> None:
        link.socket.settimeout(0)
        try:
            # Bytes that answer nothing, or the end of an idle connection, would be readable for ever if they stayed.
            while True:
                link.connection.receive(link.incoming.receive(link.socket))
                if not link.connection.in_flight:
                    return
        except EOFError:
            self._drop(link, closing_reason(link.connection, self._settings.security))
        except OSError as error:
            if not link.is_waiting(error):
                self._drop(link, str(error))
        except WireError as error:
            self._drop(link, str(error))

    def _give_up_late(self, awaited: tuple[PendingRequest, ...], now_ms: float) -> None:
        """An answer that is late ends its connection: those behind it would be late as well."""
        for pending in awaited:
            if not pending.is_late(now_ms):
                continue
            link = self._links.get((pending.address, pending.use))
            if link is not None:
                self._drop(link, f"no answer to {pending.request.api.name} in time")
            if not pending.is_done:
                pending.fail(ConnectionLost(f"{pending.address}: no connection in time", sent=False))

    def _drop(self, link: BlockingLink, reason: str) -> None:
        name = link.connection.address, link.use
        if self._links.get(name) is link:
            if self._ownership.is_ours:  # what an epoll instance watches is shared with those that were forked
                with suppress(KeyError):  # the call may have been interrupted before it was registered
                    self._selector.unregister(link.socket)
            del self._links[name]
        link.socket.close()
        link.connection.lose(reason)
