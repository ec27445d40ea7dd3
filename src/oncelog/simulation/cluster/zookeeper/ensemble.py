"""The ensemble: its nodes, its sessions and their watches, and what can go wrong with them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from random import Random

from oncelog.cluster.zookeeper.session import (
    Delete,
    Exists,
    GetChildren,
    GetData,
    NodeChange,
    Request,
    Result,
    ZooKeeperError,
)
from oncelog.cluster.zookeeper.watches import Watches
from oncelog.simulation.cluster.zookeeper.link import ENSEMBLE, EnsembleClient, EnsembleLink
from oncelog.simulation.cluster.zookeeper.tree import Changes, Tree
from oncelog.simulation.events import EventQueue, Process
from oncelog.simulation.network import Network

FIRST_SESSION_ID = 0x1000_0000_0000_0001
FIRST_ZXID = 0x1_0000_0000
NOBODY = 0
"""In the place of the session that owns what is made."""


@dataclass(slots=True, eq=False)
class _OpenSession:
    id: int
    timeout_ms: float
    last_request_ms: float
    link: EnsembleLink | None = None
    data_watches: set[str] = field(default_factory=set)
    """Watches on the data of existing nodes, and on the creation of others."""
    child_watches: set[str] = field(default_factory=set)


class SimulatedEnsemble:
    """Everything is decided by one leader, so that its transactions have one order."""

    def __init__(self, network: Network, random: Random) -> None:
        self.tree = Tree()
        self.zxid = FIRST_ZXID
        self.network = network
        self._queue: EventQueue = network.queue
        self._random = random
        self._sessions: dict[int, _OpenSession] = {}
        self._next_session_id = FIRST_SESSION_ID
        self._links: dict[EnsembleLink, None] = {}
        self._stopped_until_ms = 0.0
        self._cut_off_until_ms: dict[str, float] = {}

    @property
    def session_ids(self) -> list[int]:
        return list(self._sessions)

    def cut_off(self, node: str, until_ms: float, *, silently: bool = False) -> None:
        """Break a node's connections and let it have none until then. A silent break it has to find out by itself."""
        self._cut_off_until_ms[node] = until_ms
        self._break([link for link in self._links if link.node == node], silently=silently)

    def expire(self, session_id: int) -> None:
        """End a session, as if nothing had been heard of it for its timeout."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        self.zxid += 1
        self._tell_watches(self.tree.end_session(session_id, self.zxid))
        if session.link is not None:
            self._hang_up(session.link)

    def delete(self, path: str) -> None:
        """Somebody deletes a node, if it is there."""
        self.zxid += 1
        _, changes = self.tree.update(Delete(path), self.zxid, NOBODY)
        self._tell_watches(changes)

    def stop(self, until_ms: float) -> None:
        """There is no quorum until then: no connection, no answer, and no session expires."""
        self._stopped_until_ms = max(self._stopped_until_ms, until_ms)
        self._break(list(self._links), silently=False)
        self._queue.at(until_ms, f"{ENSEMBLE} has a quorum", self._start_again)

    def heal(self) -> None:
        """Nobody is cut off any more, and there is a quorum."""
        self._cut_off_until_ms.clear()
        self._stopped_until_ms = self._queue.now_ms
        self._start_again()

    def connect(
        self, client: EnsembleClient, process: Process, last_session_id: int, timeout_ms: float
    ) -> EnsembleLink:
        """A client that wants a session, or wants to go on with the one it has. The answer comes over the connection."""
        link = EnsembleLink(self.network, process, client)
        self._links[link] = None
        link.ask(lambda: self._welcome(link, last_session_id, timeout_ms))
        return link

    def forget(self, link: EnsembleLink) -> None:
        """The client gives it up."""
        link.break_off(self._random)
        self._links.pop(link, None)

    def ask(self, link: EnsembleLink, session_id: int, request: Request) -> None:
        link.ask(lambda: self._carry_out(link, session_id, request))

    def ping(self, link: EnsembleLink, session_id: int) -> None:
        link.ask(lambda: self._answer_ping(link, session_id))

    def set_watches(self, link: EnsembleLink, session_id: int, zxid: int, watches: Watches) -> None:
        """A client that has a new connection wants its watches back, and what they have missed since that transaction."""
        data, exists, children = tuple(watches.data), tuple(watches.exists), tuple(watches.children)
        link.ask(lambda: self._set_watches(link, session_id, zxid, data, exists, children))

    def end(self, link: EnsembleLink, session_id: int) -> None:
        link.ask(lambda: self._end(link, session_id))

    def _welcome(self, link: EnsembleLink, last_session_id: int, timeout_ms: float) -> None:
        if link.is_broken:
            return
        now_ms = self._queue.now_ms
        if now_ms < self._stopped_until_ms or now_ms < self._cut_off_until_ms.get(link.node, 0.0):
            self._hang_up(link)
            return
        session = self._sessions.get(last_session_id)
        if session is None and last_session_id:
            link.answer(lambda: link.client.expired(link))
            return
        if session is None:
            self.zxid += 1
            session = _OpenSession(self._next_session_id, timeout_ms, now_ms)
            self._next_session_id += 1
            self._sessions[session.id] = session
            self._expect(session)
        elif session.link is not None:
            self._hang_up(session.link)
        session.link, session.last_request_ms = link, now_ms
        session.data_watches.clear()
        session.child_watches.clear()
        session_id = session.id
        link.answer(lambda: link.client.welcomed(link, session_id))

    def _carry_out(self, link: EnsembleLink, session_id: int, request: Request) -> None:
        session = self._session_of(link, session_id)
        if session is None:
            return
        result: Result
        if isinstance(request, GetData | Exists | GetChildren):
            result = self.tree.read(request)
            self._set_watch(session, request, result)
        else:
            self.zxid += 1
            result, changes = self.tree.update(request, self.zxid, session_id)
            self._tell_watches(changes)
        zxid = self.zxid
        link.answer(lambda: link.client.answered(result, zxid))

    def _set_watch(self, session: _OpenSession, request: GetData | Exists | GetChildren, result: Result) -> None:
        is_watched = not isinstance(result, ZooKeeperError) or isinstance(request, Exists)
        if request.watch and is_watched:
            watches = session.child_watches if isinstance(request, GetChildren) else session.data_watches
            watches.add(request.path)

    def _tell_watches(self, changes: Changes) -> None:
        for change, path in changes:
            for session in self._sessions.values():
                kinds = _kinds(session, change)
                if any(path in kind for kind in kinds):
                    for kind in kinds:
                        kind.discard(path)
                    self._tell(session, change, path)

    def _tell(self, session: _OpenSession, change: NodeChange, path: str) -> None:
        link = session.link
        if link is not None:
            link.answer(lambda: link.client.changed(change, path))

    def _set_watches(
        self,
        link: EnsembleLink,
        session_id: int,
        zxid: int,
        data: Iterable[str],
        exists: Iterable[str],
        children: Iterable[str],
    ) -> None:
        session = self._session_of(link, session_id)
        if session is None:
            return
        for path in data:
            node = self.tree.node(path)
            if node is None:
                self._tell(session, NodeChange.DELETED, path)
            elif node.mzxid > zxid:
                self._tell(session, NodeChange.DATA, path)
            else:
                session.data_watches.add(path)
        for path in exists:
            if self.tree.node(path) is not None:
                self._tell(session, NodeChange.CREATED, path)
            else:
                session.data_watches.add(path)
        for path in children:
            node = self.tree.node(path)
            if node is None:
                self._tell(session, NodeChange.DELETED, path)
            elif node.pzxid > zxid:
                self._tell(session, NodeChange.CHILDREN, path)
            else:
                session.child_watches.add(path)

    def _answer_ping(self, link: EnsembleLink, session_id: int) -> None:
        if self._session_of(link, session_id) is not None:
            link.answer(link.client.pinged)

    def _end(self, link: EnsembleLink, session_id: int) -> None:
        if self._session_of(link, session_id) is not None:
            self.expire(session_id)

    def _session_of(self, link: EnsembleLink, session_id: int) -> _OpenSession | None:
        """The session, unless it is over, or goes on over another connection, or nobody decides anything."""
        session = self._sessions.get(session_id)
        if session is None or session.link is not link or self._queue.now_ms < self._stopped_until_ms:
            return None
        session.last_request_ms = self._queue.now_ms
        return session

    def _expect(self, session: _OpenSession) -> None:
        """Look at a session when it would expire; it is heard of many times until then."""

        def look() -> None:
            if self._sessions.get(session.id) is not session:
                return
            if self._queue.now_ms < max(session.last_request_ms + session.timeout_ms, self._stopped_until_ms):
                self._expect(session)
            else:
                self.expire(session.id)

        at_ms = max(session.last_request_ms + session.timeout_ms, self._stopped_until_ms)
        self._queue.at(at_ms, f"{ENSEMBLE} looks at session {session.id:#x}", look)

    def _start_again(self) -> None:
        """A new leader gives every session its whole timeout."""
        for session in self._sessions.values():
            session.last_request_ms = self._queue.now_ms

    def _hang_up(self, link: EnsembleLink) -> None:
        """The ensemble closes it; the client hears of it after what was sent before."""
        self._links.pop(link, None)
        link.answer(lambda: link.client.lost(link))

    def _break(self, links: list[EnsembleLink], *, silently: bool) -> None:
        for link in links:
            del self._links[link]
            link.break_off(self._random)
            if not silently:
                link.process.after(self._random.uniform(0, 1), f"{ENSEMBLE} is lost", partial(link.client.lost, link))


def _kinds(session: _OpenSession, change: NodeChange) -> tuple[set[str], ...]:
    match change:
        case NodeChange.CREATED | NodeChange.DATA:
            return (session.data_watches,)
        case NodeChange.DELETED:
            return (session.data_watches, session.child_watches)
        case NodeChange.CHILDREN:
            return (session.child_watches,)
