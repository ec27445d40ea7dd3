"""A simulated process's client of the ensemble."""

from __future__ import annotations

from collections import deque
from random import Random

from oncelog.cluster.zookeeper.conversation import ConversationClient, Phase
from oncelog.cluster.zookeeper.session import NodeChange, Request, Result
from oncelog.simulation.cluster.zookeeper.ensemble import SimulatedEnsemble
from oncelog.simulation.cluster.zookeeper.link import EnsembleLink
from oncelog.simulation.events import Process

SILENCE_SHARE = 2 / 3
PING_SHARE = 1 / 6
PAUSE_MS = (100.0, 500.0)


class SimulatedZooKeeper(ConversationClient):
    """A `ZooKeeper`, with the habits of the real client: it looks for the ensemble at once, and until it is closed.

    It sends pings, so that a process that is paused, or parted from the ensemble, loses its session.
    """

    def __init__(self, ensemble: SimulatedEnsemble, process: Process, random: Random, session_timeout_ms: int) -> None:
        super().__init__()
        self._ensemble = ensemble
        self._process = process
        self._random = random
        self.session_timeout_ms = session_timeout_ms
        self._last_session_id = 0
        self._zxid = 0
        self._answered_ms = 0.0
        self._answered_request_sent_ms = process.queue.now_ms
        """When the newest request was sent that has its answer."""
        self._sent_ms: deque[float] = deque()
        """Send times of unanswered requests: answers come in the same order."""
        self._link: EnsembleLink | None = None
        self._connect()

    @property
    def silence_ms(self) -> float:
        return self._process.queue.now_ms - self._answered_request_sent_ms

    def close(self) -> None:
        link, session_id = self._link, self.session_id
        self._conversation.close()
        if link is not None and session_id:
            self._ensemble.end(link, session_id)

    def welcomed(self, link: EnsembleLink, session_id: int) -> None:
        if self._conversation.phase is Phase.CLOSED:
            self._ensemble.end(link, session_id)
            return
        self._is_answered()
        if session_id == self._last_session_id:
            self._ensemble.set_watches(link, session_id, self._zxid, self._conversation.watches)
        self._last_session_id = session_id
        self._watch_over(link)
        self._conversation.connected(session_id)

    def expired(self, link: EnsembleLink) -> None:
        self._leave(link)
        if self._conversation.phase is not Phase.CLOSED:
            self._last_session_id = 0
            self._conversation.expired()
            self._connect()

    def answered(self, result: Result, zxid: int) -> None:
        self._is_answered()
        self._zxid = zxid
        if self._conversation.phase is not Phase.CLOSED:
            self._conversation.answered(result)

    def changed(self, change: NodeChange, path: str) -> None:
        if self._conversation.phase is not Phase.CLOSED:
            self._conversation.changed(change, path)

    def pinged(self) -> None:
        self._is_answered()

    def _is_answered(self) -> None:
        self._answered_ms = self._process.queue.now_ms
        self._answered_request_sent_ms = self._sent_ms.popleft()

    def lost(self, link: EnsembleLink) -> None:
        if link is not self._link:
            return
        self._leave(link)
        if self._conversation.phase is Phase.CONNECTED:
            self._conversation.disconnected()
        delay_ms = self._random.uniform(*PAUSE_MS)
        self._process.after(delay_ms, "looks for ZooKeeper", self._connect)

    def _leave(self, link: EnsembleLink) -> None:
        self._ensemble.forget(link)
        self._link = None
        self._sent_ms.clear()

    def _send(self, request: Request) -> None:
        assert self._link is not None, "there is a connection as long as there is a session on it"
        self._sent_ms.append(self._process.queue.now_ms)
        self._ensemble.ask(self._link, self.session_id, request)

    def _connect(self) -> None:
        if self._conversation.phase is Phase.CLOSED or self._link is not None:
            return
        self._sent_ms.append(self._process.queue.now_ms)
        link = self._link = self._ensemble.connect(self, self._process, self._last_session_id, self.session_timeout_ms)
        self._process.after(self.session_timeout_ms, "waited for ZooKeeper", lambda: self._give_up(link))

    def _give_up(self, link: EnsembleLink) -> None:
        if self._conversation.phase is Phase.CONNECTING:
            self.lost(link)

    def _watch_over(self, link: EnsembleLink) -> None:
        """Keep the session alive, and leave an ensemble that is silent."""
        if link is not self._link or self._conversation.phase is Phase.CLOSED:
            return
        if self._process.queue.now_ms - self._answered_ms > self.session_timeout_ms * SILENCE_SHARE:
            self.lost(link)
            return
        self._sent_ms.append(self._process.queue.now_ms)
        self._ensemble.ping(link, self._last_session_id)
        delay_ms = self.session_timeout_ms * PING_SHARE
        self._process.after(delay_ms, "pings ZooKeeper", lambda: self._watch_over(link))
