"""The watches of a session, and their listeners. A server forgets watches with the connection; the client sets them again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from oncelog.cluster.zookeeper.session import (
    Children,
    Data,
    Done,
    Exists,
    GetChildren,
    GetData,
    NodeChange,
    Request,
    Result,
    ZooKeeperError,
)

if TYPE_CHECKING:
    from oncelog.cluster.zookeeper.session import Watched, ZooKeeper, ZooKeeperSessionState


class Watches:
    """By the paths of nodes. A node has one of a kind, however often it was read."""

    def __init__(self) -> None:
        self.data: dict[str, None] = {}
        self.exists: dict[str, None] = {}
        """Watches on nodes that did not exist."""
        self.children: dict[str, None] = {}

    def answered(self, request: Request, result: Result) -> None:
        """The server has set the watch that a reading asked for, if it is one that it sets with this result."""
        match request, result:
            case (GetData(path, True), Data()) | (Exists(path, True), Done()):
                self.data[path] = None
            case Exists(path, True), ZooKeeperError.NO_NODE:
                self.exists[path] = None
            case GetChildren(path, True), Children():
                self.children[path] = None

    def take(self, change: NodeChange, path: str) -> bool:
        """Removes the watches that a change fires. Returns False if there is none.

        A server may report a deletion twice if both data and children were watched.
        """
        kinds: tuple[dict[str, None], ...]
        match change:
            case NodeChange.CREATED | NodeChange.DATA:
                kinds = (self.data, self.exists)
            case NodeChange.DELETED:
                kinds = (self.data, self.exists, self.children)
            case NodeChange.CHILDREN:
                kinds = (self.children,)
        found = [kind for kind in kinds if path in kind]
        for kind in found:
            del kind[path]
        return bool(found)

    def clear(self) -> None:
        self.data.clear()
        self.exists.clear()
        self.children.clear()


HearWatched = Callable[["Watched"], None]
HearSession = Callable[["ZooKeeperSessionState"], None]


class Watchers:
    """Sets the client's two callbacks, and calls all listeners."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._by_path: defaultdict[str, list[HearWatched]] = defaultdict(list)
        self._of_sessions: list[HearSession] = []
        zookeeper.on_watched = self._watched
        zookeeper.on_session = self._session

    def listen(self, path: str, hear: HearWatched) -> None:
        """Hear what the watches see that are set on a node, or on what is below it."""
        self._by_path[path].append(hear)

    def listen_to_sessions(self, hear: HearSession) -> None:
        """Adds a callback, called after those that were added before."""
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
