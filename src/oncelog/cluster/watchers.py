"""One client of ZooKeeper for all: what it hears goes on to whoever listens for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncelog.cluster.zookeeper.session import Watched, ZooKeeper, ZooKeeperSessionState

HearWatched = Callable[["Watched"], None]
HearSession = Callable[["ZooKeeperSessionState"], None]


class Watchers:
    """Takes the client's two callbacks: nobody else sets them."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._by_path: defaultdict[str, list[HearWatched]] = defaultdict(list)
        self._of_sessions: list[HearSession] = []
        zookeeper.on_watched = self._watched
        zookeeper.on_session = self._session

    def listen(self, path: str, hear: HearWatched) -> None:
        """Hear what the watches see that are set on a node, or on what is below it."""
        self._by_path[path].append(hear)

    def listen_to_sessions(self, hear: HearSession) -> None:
        """Who listens first hears first."""
        self._of_sessions.append(hear)

    def _watched(self, watched: Watched) -> None:
        path = watched.path
        while path:
            for hear in self._by_path.get(path, ()):
                hear(watched)
            path = path.rpartition("/")[0]

    def _session(self, state: ZooKeeperSessionState) -> None:
        for hear in self._of_sessions:
            hear(state)
