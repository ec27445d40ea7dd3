"""A connected socket, the protocol on it, and the thread that connects: callers of other brokers do not wait for it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from typing_extensions import Buffer

from oncelog.client.errors import AuthenticationFailed, ClientError, ConnectionLost
from oncelog.client.net.connection import BrokerConnection, handshake_bytes
from oncelog.client.net.flows import ConnectionUse, PendingRequest
from oncelog.client.net.settings import ClientSettings
from oncelog.client.transports.sessions import UNREACHABLE, begin_log_in, forget_token, opening_failure, renewal_ms
from oncelog.client.values import Address
from oncelog.security.values import Login
from oncelog.wire import FRAME_LENGTH, WireError, frame_bytes

if TYPE_CHECKING:
    from ssl import SSLContext

FIRST_BUFFER_BYTES = 64 * 1024 * 1024
"""An answer to a Fetch has 50 MiB at most, unless one batch is larger."""
CHUNKS_MAX = 1000


class Incoming:
    """The frame that is being received, into a buffer of its size."""

    __slots__ = ("_frame_bytes", "_length", "_target", "_view")

    def __init__(self) -> None:
        self._length: bytearray | None = None
        self._begin()

    def _begin(self) -> None:
        self._length = bytearray(FRAME_LENGTH.size)
        self._target = self._length
        self._view = memoryview(self._target)
        self._frame_bytes = 0

    def receive(
        self,
        connected: socket.socket,
        measure: Callable[[bytes], int] = frame_bytes,
        until_ms: float | None = None,
    ) -> Buffer:
        """Return the next frame, waiting until a time, or else as long as the socket does for each of its pieces.

        Raises OSError, EOFError and what `measure` does.
        """
        while True:
            if until_ms is not None:
                connected.settimeout(_seconds_until(until_ms))
            size_bytes = connected.recv_into(self._view)
            if size_bytes == 0:
                raise EOFError
            self._view = self._view[size_bytes:]
            if len(self._view):
                continue
            if self._length is not None:
                self._frame_bytes = measure(bytes(self._length))
                self._length = None
                self._target = bytearray(min(self._frame_bytes, FIRST_BUFFER_BYTES))
                self._view = memoryview(self._target)
            elif len(self._target) < self._frame_bytes:
                self._grow()
            else:
                frame = memoryview(self._target).toreadonly()
                self._begin()
                return frame

    def _grow(self) -> None:
        """Room for as much again: what a length says is believed as far as it has come true."""
        received_bytes = len(self._target)
        self._view.release()
        self._target.extend(bytes(min(received_bytes, self._frame_bytes - received_bytes)))
        self._view = memoryview(self._target)[received_bytes:]


class BlockingLink:
    """A socket, with TLS or without, and what is said over it."""

    __slots__ = ("connection", "incoming", "is_encrypted", "renew_at_ms", "socket", "use")

    def __init__(
        self, connected: socket.socket, connection: BrokerConnection, use: ConnectionUse, *, is_encrypted: bool
    ) -> None:
        self.socket = connected
        self.connection = connection
        self.use = use
        self.is_encrypted = is_encrypted
        self.incoming = Incoming()
        self.renew_at_ms = float("inf")

    @classmethod
    def open(
        cls,
        address: Address,
        use: ConnectionUse,
        settings: ClientSettings,
        context: SSLContext | None,
        timeout_ms: float,
    ) -> Self:
        """Connect, and log in, within `timeout_ms`. Raises ConnectionLost, AuthenticationFailed, UnsupportedVersion."""
        until_ms = time.monotonic() * 1000 + timeout_ms
        try:
            connected = socket.create_connection(address, timeout=_seconds_until(until_ms))
        except UNREACHABLE as error:
            raise ConnectionLost(f"{address}: {error}", sent=False) from error
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = BrokerConnection(address, settings.client_id)
        try:
            connected.settimeout(_seconds_until(until_ms))
            if context is not None:
                connected = context.wrap_socket(connected, server_hostname=address.host)
            link = cls(connected, connection, use, is_encrypted=context is not None)
            link.handshake(until_ms)
            if settings.security.login is not None:
                link.log_in(settings.security.login, _seconds_until(until_ms))
        except (OSError, EOFError, WireError) as error:
            connected.close()
            raise opening_failure(connection, settings.security, error) from error
        except ClientError:
            connected.close()
            raise
        return link

    def handshake(self, until_ms: float) -> None:
        while True:
            self.send(self.connection.handshake_request())
            if self.connection.take_handshake(self.incoming.receive(self.socket, handshake_bytes, until_ms)):
                return

    def log_in(self, login: Login, timeout_s: float) -> None:
        """Authenticate, for the first time or again. Requests in flight are answered before (KIP-368).

        Raises AuthenticationFailed, ConnectionLost, OSError, EOFError or WireError.
        """
        until_ms = (time.monotonic() + timeout_s) * 1000
        self.socket.settimeout(timeout_s)
        steps = begin_log_in(self.connection.address, login, timeout_s)
        request = next(steps)
        while True:
            pending = PendingRequest(self.connection.address, request, self.use)
            self.send(self.connection.send(pending))
            while not pending.is_done:
                self.connection.receive(self.incoming.receive(self.socket, until_ms=until_ms))
            try:
                request = steps.send(pending.result())
            except StopIteration as end:
                self.renew_at_ms = renewal_ms(end.value)
                return
            except AuthenticationFailed:
                forget_token(login)
                raise

    def send(self, chunks: list[Buffer]) -> None:
        """Send all of it, waiting as long as the socket's timeout allows. Raises OSError."""
        if self.is_encrypted:
            self.socket.sendall(b"".join(chunks))
            return
        waiting = [memoryview(chunk) for chunk in chunks]
        while waiting:
            sent_bytes = self.socket.sendmsg(waiting[:CHUNKS_MAX])
            while waiting and sent_bytes >= len(waiting[0]):
                sent_bytes -= len(waiting.pop(0))
            if sent_bytes:
                waiting[0] = waiting[0][sent_bytes:]

    def is_closed(self) -> bool:
        """True if the other side has ended an idle connection, or sent bytes that answer no request."""
        self.socket.settimeout(0)
        try:
            self.socket.recv(1)
        except OSError as error:
            return not self.is_waiting(error)
        return True

    def is_waiting(self, error: OSError) -> bool:
        """True if a non-blocking socket has nothing yet. With TLS, bytes may have come that are no part of a message."""
        if not self.is_encrypted:
            return isinstance(error, BlockingIOError)
        from ssl import SSLWantReadError, SSLWantWriteError

        return isinstance(error, SSLWantReadError | SSLWantWriteError)


def _seconds_until(time_ms: float) -> float:
    """The timeout of a socket; never 0, which would make it non-blocking."""
    return max(0.001, time_ms / 1000 - time.monotonic())


class Opening:
    """`finished` is called once, on the thread, when there is a `link` or the `failure` is known.

    `waiting` has the requests that are to be sent then, with the time for the answer of each.
    """

    def __init__(
        self,
        address: Address,
        use: ConnectionUse,
        settings: ClientSettings,
        context: SSLContext | None,
        timeout_ms: float,
        finished: Callable[[Opening], None],
    ) -> None:
        self.name = address, use
        self.waiting: list[tuple[PendingRequest, float]] = []
        self.link: BlockingLink | None = None
        self.failure: ClientError = ConnectionLost(f"{address}: this client was closed", sent=False)
        self._settings = settings
        self._context = context
        self._timeout_ms = timeout_ms
        self._finished = finished
        self._lock = threading.Lock()
        self._is_abandoned = False
        threading.Thread(target=self._open, name="oncelog-connecting", daemon=True).start()

    def abandon(self) -> None:
        """Close the connection, now or when it is made: nobody waits for it any more."""
        with self._lock:
            self._is_abandoned = True
            if self.link is not None:
                self.link.socket.close()

    def _open(self) -> None:
        link: BlockingLink | None = None
        try:
            link = BlockingLink.open(*self.name, self._settings, self._context, self._timeout_ms)
        except ClientError as error:
            self.failure = error
        finally:
            with self._lock:
                self.link = link
                if self._is_abandoned and link is not None:
                    link.socket.close()
            self._finished(self)
