"""A client of a real ensemble: one session after another, over one connection at a time."""

from __future__ import annotations

import asyncio
import logging
import random
import struct
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import cycle

from oncelog.cluster.zookeeper.conversation import ConversationClient, Phase
from oncelog.cluster.zookeeper.session import (
    NodeChange,
    Request,
    Result,
    ZooKeeperError,
)
from oncelog.server.zookeeper import records
from oncelog.server.zookeeper.connection import Guard, ServerConnection
from oncelog.server.zookeeper.records import NODE_EXISTS, OK, PING_XID, WATCH_XID, JuteRecord, Welcome

logger = logging.getLogger("oncelog.cluster.zookeeper")

SILENCE_SHARE = 2 / 3
"""Share of the session timeout after which a silent server is left, early enough to find another one."""
PING_SHARE = 1 / 6
FIRST_PATIENCE_SHARE = 1 / 4
"""Share of the time in which every server can be tried once before the session is over, doubled at each further try. A starting
server may accept a connection and never answer: it is left soon enough for the session to continue at the next server.
"""
PAUSE_S = (0.1, 0.5)
"""Between two rounds through the servers; at random, so that not all clients come back at the same time."""
SHORT_LIFE_S = 1.0
"""A connection that broke sooner is followed by a pause, too."""
CLOSE_TIMEOUT_S = 2.0
XID_MAX = 2**31 - 1
MALFORMED = (struct.error, ValueError, TypeError)


PORT = 2181


@dataclass(frozen=True, slots=True)
class Ensemble:
    """`chroot` is the path that all paths are below; empty without one."""

    servers: tuple[tuple[str, int], ...]
    chroot: str = ""


def parse_ensemble(connect: str) -> Ensemble:
    """Read HOST:PORT[,HOST:PORT…][/chroot]. Raises ValueError."""
    hosts, slash, chroot = connect.partition("/")
    servers = tuple(_server(host.strip(), connect) for host in hosts.split(",") if host.strip())
    if not servers:
        raise ValueError(f"zookeeper.connect={connect} names no server: give HOST:PORT, for example 127.0.0.1:{PORT}")
    names = chroot.rstrip("/").split("/") if chroot.strip("/") else []
    if any(name in ("", ".", "..") for name in names):
        raise ValueError(f"zookeeper.connect={connect} is not allowed: {slash}{chroot} is not a path of ZooKeeper")
    return Ensemble(servers, "".join(f"/{name}" for name in names))


def _server(text: str, connect: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(PORT)
    if not host or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise ValueError(
            f"zookeeper.connect={connect} is not allowed: {text!r} is not an address: give HOST:PORT, "
            f"for example 127.0.0.1:{PORT}"
        )
    return host.strip("[]"), int(port)


class ZooKeeperUnreachableError(OSError):
    """No server of the ensemble gave a session in time."""


@dataclass(frozen=True, slots=True)
class _Credentials:
    """Id and password of a session; `id` is 0 while there is none."""

    id: int = 0
    password: bytes = bytes(16)


class RealZooKeeper(ConversationClient):
    """A `ZooKeeper`. It is made in a running event loop, looks for a server at once, and goes on until it is closed.

    Everything is called back in `guard`, as by `RealClock`. The server may give another timeout than is asked for:
    `session_timeout_ms` is the one that counts.
    """

    def __init__(self, ensemble: Ensemble, session_timeout_ms: int, connection_timeout_ms: int, guard: Guard) -> None:
        super().__init__()
        self.session_timeout_ms = session_timeout_ms
        self._asked_timeout_ms = session_timeout_ms
        self._connection_timeout_ms = connection_timeout_ms
        self._ensemble = ensemble
        self._guard = guard
        self._loop = asyncio.get_running_loop()
        self._session = _Credentials()
        self._last_zxid = 0
        self._last_xid = 0
        self._sent: deque[tuple[int, Request | None, float]] = deque()
        """Unanswered requests, each with its xid and send time; None for the client's own requests."""
        self._pinged_at: deque[float] = deque()
        self._answered_at = 0.0
        self._answered_request_sent_at = self._loop.time()
        """When the newest request was sent that has its answer."""
        self._patience_share = FIRST_PATIENCE_SHARE
        self._connection: ServerConnection | None = None
        self._first_session = asyncio.Event()
        self._keeper = self._loop.create_task(self._stay_connected())
        self._keeper.add_done_callback(self._keeper_ended)

    @property
    def silence_ms(self) -> float:
        return (self._loop.time() - self._answered_request_sent_at) * 1000

    async def connected(self) -> None:
        """Wait for the first session. Raises ZooKeeperUnreachableError after zookeeper.connection.timeout.ms."""
        try:
            async with asyncio.timeout(self._connection_timeout_ms / 1000):
                await self._first_session.wait()
        except TimeoutError:
            servers = ",".join(f"{host}:{port}" for host, port in self._ensemble.servers)
            raise ZooKeeperUnreachableError(
                f"no ZooKeeper server of {servers} gave a session in {self._connection_timeout_ms} ms; start one, "
                "or correct zookeeper.connect, or raise zookeeper.connection.timeout.ms"
            ) from None

    def close(self) -> None:
        """Ask the server to end the session; `wait_closed` waits until it has."""
        was = self._conversation.phase
        self._conversation.close()
        self._keeper.cancel()
        connection = self._connection
        if connection is None or was is Phase.CLOSED:
            return
        if was is Phase.CONNECTING:
            connection.abort("the client was closed")
            return
        # It goes on being read: an end of the connection with answers unread would take the request back.
        connection.send(records.close_frame())
        self._loop.call_later(CLOSE_TIMEOUT_S, connection.abort, "the server did not end the session in time")

    async def wait_closed(self) -> None:
        """After `close`: until the server has ended the session, or for two seconds."""
        assert self._conversation.phase is Phase.CLOSED, "close it first"
        if self._connection is not None:
            await asyncio.shield(self._connection.over)

    async def _stay_connected(self) -> None:
        servers = list(self._ensemble.servers)
        random.shuffle(servers)
        failures = 0
        for host, port in cycle(servers):
            if await self._use(host, port):
                failures = 0
                continue
            failures += 1
            if failures % len(servers) == 0:
                await asyncio.sleep(random.uniform(*PAUSE_S))

    async def _use(self, host: str, port: int) -> bool:
        """Return when a connection to this server is over: whether it was good for something."""
        session = self._session
        timeout_s = self._patience_share * self._asked_timeout_ms / 1000 / len(self._ensemble.servers)
        connection = self._connection = ServerConnection(self._loop, self._guard, self._received, self._lost)
        connection.send(records.connect_frame(self._last_zxid, self._asked_timeout_ms, session.id, session.password))
        deadline = self._loop.call_later(timeout_s, self._give_up, connection)
        try:
            async with asyncio.timeout(timeout_s):
                await self._loop.create_connection(lambda: connection, host, port)
            await asyncio.shield(connection.over)
        except (OSError, TimeoutError) as error:
            if isinstance(error, TimeoutError):
                self._be_more_patient()
            logger.info("ZooKeeper at %s:%d cannot be reached: %s", host, port, str(error) or "it does not answer")
            return False
        finally:
            deadline.cancel()
        has_expired = session.id != 0 and self._session.id == 0
        welcomed_at = connection.welcomed_at
        return has_expired or (welcomed_at is not None and self._loop.time() - welcomed_at > SHORT_LIFE_S)

    def _give_up(self, connection: ServerConnection) -> None:
        if connection.welcomed_at is None:
            self._be_more_patient()
            connection.abort("the server gave no session in time")

    def _be_more_patient(self) -> None:
        self._patience_share = min(1.0, 2 * self._patience_share)

    def _keeper_ended(self, keeper: asyncio.Task[None]) -> None:
        if not keeper.cancelled():
            self._guard(keeper.result)

    def _received(self, connection: ServerConnection, data: bytes) -> None:
        if connection is not self._connection or self._conversation.phase is Phase.CLOSED:
            return
        try:
            if self._conversation.phase is Phase.CONNECTING:
                then: Callable[[], None] = partial(self._welcomed, connection, records.welcome(data))
            else:
                then = self._understood(data)
        except MALFORMED as error:
            connection.abort(f"the server sent what is none of its protocol: {error}")
            return
        then()

    def _understood(self, data: bytes) -> Callable[[], None]:
        """Decodes an answer or an event; returns the call that handles it. Raises the errors of MALFORMED."""
        header, offset = records.header(data)
        if header.zxid > 0:
            self._last_zxid = header.zxid
        if header.xid == WATCH_XID:
            # It is no sign that the server still hears this client.
            return partial(self._changed, *records.watched(data, offset))
        self._answered_at = self._loop.time()
        if header.xid == PING_XID:
            if not self._pinged_at:
                raise ValueError("an answer to a ping that was not sent")
            self._request_answered(self._pinged_at.popleft())
            return _nothing
        if not self._sent or self._sent[0][0] != header.xid:
            raise ValueError(f"an answer to request {header.xid}, which is not the next")
        _, request, sent_at = self._sent[0]
        self._request_answered(sent_at)
        if request is None:
            return partial(self._answered_us, header.error)
        if header.error:
            return partial(self._answered, self._error(request, header.error))
        return partial(self._answered, records.result(request, data, offset, self._short))

    def _request_answered(self, sent_at: float) -> None:
        self._answered_request_sent_at = max(self._answered_request_sent_at, sent_at)

    def _error(self, request: Request, code: int) -> ZooKeeperError:
        error = records.error(code)
        if error is ZooKeeperError.SYSTEM_ERROR:
            logger.warning("ZooKeeper answered with error %d to %s", code, request)
        return error

    def _answered(self, result: Result) -> None:
        self._sent.popleft()
        self._conversation.answered(result)

    def _answered_us(self, code: int) -> None:
        self._sent.popleft()
        if code not in (OK, NODE_EXISTS):
            logger.warning("ZooKeeper answered with error %d where its watches or the chroot were asked for", code)

    def _changed(self, change: NodeChange | None, path: str) -> None:
        if change is not None:
            self._conversation.changed(change, self._short(path))

    def _welcomed(self, connection: ServerConnection, welcome: Welcome) -> None:
        if welcome.timeout_ms <= 0:
            self._expired(connection)
            return
        is_new = welcome.session_id != self._session.id
        self._session = _Credentials(welcome.session_id, welcome.password)
        self.session_timeout_ms = welcome.timeout_ms
        connection.welcomed_at = self._answered_at = self._loop.time()
        self._request_answered(connection.begun_at)
        self._patience_share = FIRST_PATIENCE_SHARE
        logger.info("session %#x with ZooKeeper, timeout %d ms", self._session.id, self.session_timeout_ms)
        # First what the requests build on: a watch from before has to be heard before any newer result is.
        for record in self._paths_of_chroot() if is_new else self._watches():
            self._send_record(record, None)
        self._first_session.set()
        self._watch_over(connection)
        self._conversation.connected(self._session.id)

    def _expired(self, connection: ServerConnection) -> None:
        logger.warning("session %#x with ZooKeeper has expired", self._session.id)
        connection.abort("the session has expired")
        self._session = _Credentials()
        self._conversation.expired()

    def _lost(self, connection: ServerConnection, reason: str) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        self._sent.clear()
        self._pinged_at.clear()
        if self._conversation.phase is not Phase.CLOSED:
            logger.info("the connection to ZooKeeper is over: %s", reason)
        if self._conversation.phase is Phase.CONNECTED:
            self._conversation.disconnected()

    def _watch_over(self, connection: ServerConnection) -> None:
        """Keep the session alive, and leave a server that is silent, also where there is always something to send."""
        if connection is not self._connection or self._conversation.phase is Phase.CLOSED:
            return
        now, timeout_s = self._loop.time(), self.session_timeout_ms / 1000
        if now - self._answered_at > timeout_s * SILENCE_SHARE:
            connection.abort(f"the server answered nothing for {now - self._answered_at:.1f} s")
            return
        if now - connection.sent_at >= timeout_s * PING_SHARE:
            self._pinged_at.append(now)
            connection.send(records.ping_frame())
        self._loop.call_later(timeout_s * PING_SHARE, self._watch_over, connection)

    def _send(self, request: Request) -> None:
        self._send_record(records.record(request, self._full), request)

    def _send_record(self, record: JuteRecord, request: Request | None) -> None:
        assert self._connection is not None, "there is a connection as long as there is a session on it"
        self._last_xid = self._last_xid % XID_MAX + 1
        self._sent.append((self._last_xid, request, self._loop.time()))
        self._connection.send(records.frame(self._last_xid, record))

    def _watches(self) -> Iterator[JuteRecord]:
        watches = self._conversation.watches
        data, exists, children = (map(self._full, paths) for paths in (watches.data, watches.exists, watches.children))
        return records.set_watches(self._last_zxid, data, exists, children)

    def _paths_of_chroot(self) -> Iterator[JuteRecord]:
        names = self._ensemble.chroot.split("/")
        return (records.empty_node("/".join(names[:count])) for count in range(2, len(names) + 1))

    def _full(self, path: str) -> str:
        assert path.startswith("/"), f"{path} is no path of ZooKeeper"
        return self._ensemble.chroot + path if path != "/" else self._ensemble.chroot or path

    def _short(self, path: str) -> str:
        return path.removeprefix(self._ensemble.chroot) or "/"


def _nothing() -> None:
    pass
