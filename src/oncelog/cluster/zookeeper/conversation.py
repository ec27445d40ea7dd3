"""The client's side of a session, without the connection: waiting requests, requests under way, and watches.

ZooKeeper ends the connection at a request larger than `jute.maxbuffer`, without an answer. A repeated request would never get
through, nor would the others on the connection; so such a request is refused here.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum, auto

from oncelog.cluster.zookeeper.session import (
    Multi,
    NodeChange,
    Request,
    Result,
    Results,
    Watched,
    Write,
    ZooKeeperError,
    ZooKeeperSessionState,
)
from oncelog.cluster.zookeeper.watches import Watches
from oncelog.coordination import Promise

logger = logging.getLogger("oncelog.cluster.zookeeper")

REQUEST_BYTES_MAX = 0xFFFFF - 4096
"""Less than ZooKeeper's own limit by what is not counted here: the chroot, and the fields beside path and data."""
FIELDS_BYTES = 64


class Phase(Enum):
    CONNECTING = auto()
    CONNECTED = auto()
    CLOSED = auto()


class Conversation:
    """A `ZooKeeper` without the connection: its owner reports what happens to that.

    `send` carries a request to the server. It is called only while there is a connection.
    """

    def __init__(self, send: Callable[[Request], None]) -> None:
        self.on_watched: Callable[[Watched], None] = lambda _: None
        self.on_session: Callable[[ZooKeeperSessionState], None] = lambda _: None
        self.phase = Phase.CONNECTING
        self.session_id = 0
        self.watches = Watches()
        self._send = send
        self._waiting: deque[tuple[Request, Promise[Result]]] = deque()
        self._under_way: deque[tuple[Request, Promise[Result]]] = deque()

    def submit(self, request: Request) -> Promise[Result]:
        refused = refusal(request)
        if refused is not None:
            return Promise.ready(refused)
        promise: Promise[Result] = Promise()
        match self.phase:
            case Phase.CONNECTED:
                self._under_way.append((request, promise))
                self._send(request)
            case Phase.CONNECTING:
                self._waiting.append((request, promise))
            case Phase.CLOSED:
                # A closed client calls nothing back.
                pass
        return promise

    def connected(self, session_id: int) -> None:
        """There is a connection, and a session on it: a new one, or the one from before with its watches set again."""
        assert self.phase is Phase.CONNECTING, f"connected while {self.phase.name}"
        self.phase, self.session_id = Phase.CONNECTED, session_id
        waiting, self._waiting = self._waiting, deque()
        self._under_way.extend(waiting)
        for request, _ in waiting:
            self._send(request)
        self.on_session(ZooKeeperSessionState.CONNECTED)

    def disconnected(self) -> None:
        assert self.phase is Phase.CONNECTED, f"disconnected while {self.phase.name}"
        self.phase = Phase.CONNECTING
        under_way, self._under_way = self._under_way, deque()
        self.on_session(ZooKeeperSessionState.DISCONNECTED)
        self._release(under_way, ZooKeeperError.CONNECTION_LOSS)

    def expired(self) -> None:
        """A server knows the session no more. The next one begins with the next connection."""
        assert self.phase is Phase.CONNECTING, f"expired while {self.phase.name}"
        self.session_id = 0
        self.watches.clear()
        waiting, self._waiting = self._waiting, deque()
        self.on_session(ZooKeeperSessionState.EXPIRED)
        self._release(waiting, ZooKeeperError.SESSION_EXPIRED)

    def answered(self, result: Result) -> None:
        """The answer to the oldest request that is under way."""
        request, promise = self._under_way.popleft()
        self.watches.answered(request, result)
        promise.resolve(result)

    def changed(self, change: NodeChange, path: str) -> None:
        if self.watches.take(change, path):
            self.on_watched(Watched(path, change))

    def close(self) -> None:
        self.phase, self.session_id = Phase.CLOSED, 0
        self._waiting.clear()
        self._under_way.clear()

    def _release(self, requests: Iterable[tuple[Request, Promise[Result]]], error: ZooKeeperError) -> None:
        for _, promise in requests:
            # The callback of the last one may have closed the client.
            if self.phase is not Phase.CLOSED:
                promise.resolve(error)


class ConversationClient(ABC):
    """Base of the clients: delegates to a conversation. A subclass adds the connection and `close`, and is a `ZooKeeper`."""

    def __init__(self) -> None:
        self._conversation = Conversation(self._send)

    @abstractmethod
    def _send(self, request: Request) -> None:
        """Carry a request to the server: there is a connection."""

    @property
    def on_watched(self) -> Callable[[Watched], None]:
        return self._conversation.on_watched

    @on_watched.setter
    def on_watched(self, hear: Callable[[Watched], None]) -> None:
        self._conversation.on_watched = hear

    @property
    def on_session(self) -> Callable[[ZooKeeperSessionState], None]:
        return self._conversation.on_session

    @on_session.setter
    def on_session(self, hear: Callable[[ZooKeeperSessionState], None]) -> None:
        self._conversation.on_session = hear

    @property
    def session_id(self) -> int:
        return self._conversation.session_id

    def submit(self, request: Request) -> Promise[Result]:
        return self._conversation.submit(request)


def refusal(request: Request) -> Result | None:
    """The error for a request that is too large; None for one that may be sent."""
    size_bytes = sum(map(_size_bytes, request.writes)) if isinstance(request, Multi) else _size_bytes(request)
    if size_bytes <= REQUEST_BYTES_MAX:
        return None
    logger.error("a request of %d bytes is not sent: ZooKeeper's limit is %d", size_bytes, REQUEST_BYTES_MAX)
    if not isinstance(request, Multi):
        return ZooKeeperError.SYSTEM_ERROR
    largest = max(range(len(request.writes)), key=lambda index: _size_bytes(request.writes[index]))
    before = (ZooKeeperError.ROLLED_BACK,) * largest
    behind = (ZooKeeperError.NOT_TRIED,) * (len(request.writes) - largest - 1)
    return Results((*before, ZooKeeperError.SYSTEM_ERROR, *behind))


def _size_bytes(request: Request | Write) -> int:
    path, data = getattr(request, "path", ""), getattr(request, "data", None)
    # Nearly every path is short.
    path_bytes = len(path) if path.isascii() else len(path.encode(errors="replace"))
    return path_bytes + len(data or b"") + FIELDS_BYTES
