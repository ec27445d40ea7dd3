"""A TCP proxy that knows where a Kafka request begins and ends, for breaking things at a chosen moment.

    with Proxy(broker.bootstrap_servers) as proxy:
        killed = proxy.at_answer(ApiKey.END_TXN, nth=3, call=driver.kill, then=Then.CUT)
        run_the_pipeline(proxy.bootstrap_servers)
        assert killed.fired.wait(30)

It stands before all brokers of a cluster, and puts its own addresses in the place of theirs in the answers that name one, so that
no client goes round it. Only answers to Fetch, which may name new leaders too (KIP-951), are left as they are: records are in them.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, IntEnum, auto
from types import TracebackType

FRAME_BYTES_MAX = 256 * 1024 * 1024
LENGTH = struct.Struct(">i")
REQUEST_HEADER = struct.Struct(">hhih")
CORRELATION = struct.Struct(">i")
CHUNK_BYTES = 1 << 16


class ApiKey(IntEnum):
    """The requests that a rule can name; any other key works as a plain number."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_CLUSTER = 60
    CONSUMER_GROUP_HEARTBEAT = 68


ANSWERS_WITH_ADDRESSES = frozenset({ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER, ApiKey.PRODUCE})
"""An answer to Produce names the new leader of a partition that has moved (KIP-951)."""

Address = tuple[str, int]


class Point(Enum):
    """The direction of a frame. The proxy has all of it, and the other side nothing, when a rule sees it."""

    REQUEST = auto()
    ANSWER = auto()


class Then(Enum):
    """The outcome for the frame and its connection once a rule has fired."""

    FORWARD = auto()
    """It is forwarded as without a rule."""
    CUT = auto()
    """It is lost, and its connection with it: a request never reaches the broker, an answer never the client."""
    FORWARD_AND_CUT = auto()
    """A request reaches the broker, and the client loses the connection before the answer."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One request, or the answer to it. `payload` is the frame without its length."""

    point: Point
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    connection: int
    payload: bytes


@dataclass(eq=False, slots=True)
class Rule:
    """Fires once, at the nth frame that it matches. `fired` is set after `call` has returned."""

    point: Point
    api_key: int
    nth: int
    then: Then
    call: Callable[[], object] | None
    where: Callable[[Frame], bool] | None
    seen: int = 0
    fired: threading.Event = field(default_factory=threading.Event)

    def matches(self, frame: Frame) -> bool:
        return frame.point is self.point and frame.api_key == self.api_key and (self.where is None or self.where(frame))


class Proxy:
    """Listens on a port of its own for each broker, and passes everything on to it. Threads do the work; `close` ends them.

    `bootstrap_servers` has to name every broker. Without `listen` it takes free ports on the brokers' own hosts, because clients
    get its ports with the brokers' hosts. With a port in `listen` it takes that port and the ports after it.
    """

    def __init__(self, bootstrap_servers: str, listen: str | None = None) -> None:
        targets = [_address(server) for server in bootstrap_servers.split(",")]
        own = [(host, 0) for host, _ in targets] if listen is None else _count_up(listen, len(targets))
        self._listeners = [_listener(*address) for address in own]
        self._own = [listener.getsockname()[:2] for listener in self._listeners]
        self._instead = {
            _on_the_wire(target): _on_the_wire((target[0], own[1]))
            for target, own in zip(targets, self._own, strict=True)
        }
        self._theirs = re.compile(b"|".join(map(re.escape, self._instead)))
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._links: set[_Link] = set()
        self._closed = False
        self.connections = 0
        self.counts: Counter[tuple[Point, int]] = Counter()
        for listener, target in zip(self._listeners, targets, strict=True):
            threading.Thread(target=self._accept, args=(listener, target), name="proxy", daemon=True).start()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self._own)

    def at_request(
        self,
        api_key: int,
        *,
        nth: int = 1,
        then: Then = Then.FORWARD,
        call: Callable[[], object] | None = None,
        where: Callable[[Frame], bool] | None = None,
    ) -> Rule:
        """Fire at the nth such request from now on, when the client has sent it and the broker has not seen it."""
        return self._add(Rule(Point.REQUEST, api_key, nth, then, call, where))

    def at_answer(
        self,
        api_key: int,
        *,
        nth: int = 1,
        then: Then = Then.FORWARD,
        call: Callable[[], object] | None = None,
        where: Callable[[Frame], bool] | None = None,
    ) -> Rule:
        """Fire at the nth answer to such a request, when the broker has sent it and the client has not seen it."""
        if then is Then.FORWARD_AND_CUT:
            raise ValueError("an answer that was forwarded leaves nothing to cut: CUT loses it")
        return self._add(Rule(Point.ANSWER, api_key, nth, then, call, where))

    def cut_all(self) -> None:
        """Close every connection that is open now."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.cut()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        for listener in self._listeners:
            _shut(listener)
        self.cut_all()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def passing(self, frame: Frame) -> Then:
        """Count the frame, run the rule that fires at it, and return its outcome."""
        with self._lock:
            self.counts[frame.point, frame.api_key] += 1
            rule = self._firing(frame)
        if rule is None:
            return Then.FORWARD
        try:
            if rule.call is not None:
                rule.call()
        finally:
            rule.fired.set()
        return rule.then

    def readdressed(self, frame: Frame) -> bytes:
        """The answer, with the proxy's ports where it names brokers: host, then port, as the protocol has it."""
        if frame.api_key not in ANSWERS_WITH_ADDRESSES:
            return frame.payload
        return self._theirs.sub(lambda found: self._instead[found[0]], frame.payload)

    def forget(self, link: _Link) -> None:
        with self._lock:
            self._links.discard(link)

    def _add(self, rule: Rule) -> Rule:
        if rule.nth < 1:
            raise ValueError(f"nth is {rule.nth}: the first one is number 1")
        with self._lock:
            self._rules.append(rule)
        return rule

    def _firing(self, frame: Frame) -> Rule | None:
        chosen = None
        for rule in self._rules:
            if rule.matches(frame):
                rule.seen += 1
                if rule.seen == rule.nth and chosen is None:
                    chosen = rule
        if chosen is not None:
            self._rules.remove(chosen)
        return chosen

    def _accept(self, listener: socket.socket, target: Address) -> None:
        while not self._closed:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(target, timeout=10)
            except OSError:
                client.close()
                continue
            broker.settimeout(None)
            for side in (client, broker):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                if self._closed:
                    _shut(client)
                    _shut(broker)
                    return
                self.connections += 1
                link = _Link(self, client, broker, self.connections)
                self._links.add(link)
            link.start()


class _Link:
    """One client connection, and the connection to the broker behind it."""

    def __init__(self, proxy: Proxy, client: socket.socket, broker: socket.socket, number: int) -> None:
        self._proxy, self._client, self._broker, self._number = proxy, client, broker, number
        self._waiting: dict[int, tuple[int, int, str]] = {}
        self._client_is_gone = False

    def start(self) -> None:
        for work in (self._requests, self._answers):
            threading.Thread(target=self._run, args=(work,), name=f"proxy {self._number}", daemon=True).start()

    def cut(self) -> None:
        """Close both connections, so that both sides see it at once."""
        for side in (self._client, self._broker):
            _shut(side)

    def _run(self, work: Callable[[], None]) -> None:
        cut_off = False
        try:
            work()
            cut_off = work == self._requests and self._client_is_gone
        except (OSError, struct.error):
            pass
        finally:
            if not cut_off:
                self.cut()
                self._proxy.forget(self)

    def _requests(self) -> None:
        while (payload := _receive(self._client)) is not None:
            frame = self._request(payload)
            then = self._proxy.passing(frame)
            if then is Then.CUT:
                return
            if then is Then.FORWARD_AND_CUT:
                self._client_is_gone = True
                _shut(self._client)
            _send(self._broker, payload)
            if self._client_is_gone:
                return

    def _answers(self) -> None:
        """Forward answers until the broker closes. Answers for a client that was cut off are awaited and dropped."""
        while (payload := _receive(self._broker)) is not None:
            frame = self._answer(payload)
            then = self._proxy.passing(frame)
            if then is Then.CUT or (self._client_is_gone and not self._waiting):
                return
            if not self._client_is_gone:
                _send(self._client, self._proxy.readdressed(frame))

    def _request(self, payload: bytes) -> Frame:
        api_key, version, correlation, size = REQUEST_HEADER.unpack_from(payload)
        start = REQUEST_HEADER.size
        client_id = payload[start : start + max(0, size)].decode(errors="replace")
        self._waiting[correlation] = (api_key, version, client_id)
        return Frame(Point.REQUEST, api_key, version, correlation, client_id, self._number, payload)

    def _answer(self, payload: bytes) -> Frame:
        (correlation,) = CORRELATION.unpack_from(payload)
        api_key, version, client_id = self._waiting.pop(correlation, (-1, -1, ""))
        return Frame(Point.ANSWER, api_key, version, correlation, client_id, self._number, payload)


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def _count_up(listen: str, count: int) -> list[Address]:
    host, port = _address(listen)
    return [(host, port and port + number) for number in range(count)]


def _listener(host: str, port: int) -> socket.socket:
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return socket.create_server(address[:2], family=family)


def _on_the_wire(address: Address) -> bytes:
    host, port = address
    return host.encode() + LENGTH.pack(port)


def _shut(side: socket.socket) -> None:
    with suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
    side.close()


def _send(side: socket.socket, payload: bytes) -> None:
    side.sendall(LENGTH.pack(len(payload)) + payload)


def _receive(side: socket.socket) -> bytes | None:
    """One frame without its length, or None when the other side has closed or sends what is no frame."""
    head = _exactly(side, LENGTH.size)
    if head is None:
        return None
    (size,) = LENGTH.unpack(head)
    if not REQUEST_HEADER.size - 6 <= size <= FRAME_BYTES_MAX:
        return None
    return _exactly(side, size)


def _exactly(side: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        piece = side.recv(min(size - len(data), CHUNK_BYTES * 16))
        if not piece:
            return None
        data += piece
    return bytes(data)
