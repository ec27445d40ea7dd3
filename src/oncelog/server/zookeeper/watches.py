"""The watches that a session has. A server forgets them with the connection, and a client brings them to the next one."""

from __future__ import annotations

from collections.abc import Iterator

from oncelog.server.zookeeper.records import SetWatches, set_watches
from oncelog.zookeeper.session import (
    Change,
    Children,
    Data,
    Done,
    Exists,
    GetChildren,
    GetData,
    Request,
    Result,
    ZooKeeperError,
)


class Watches:
    """By the full paths of nodes. A node has one of a kind, however often it was read."""

    def __init__(self) -> None:
        self._data: dict[str, None] = {}
        self._exists: dict[str, None] = {}
        """Of nodes that were not there."""
        self._children: dict[str, None] = {}

    def answered(self, request: Request, result: Result, path: str) -> None:
        """The server has set the watch that a reading asked for, if it is one that it sets with this result."""
        match request, result:
            case (GetData(watch=True), Data()) | (Exists(watch=True), Done()):
                self._data[path] = None
            case Exists(watch=True), ZooKeeperError.NO_NODE:
                self._exists[path] = None
            case GetChildren(watch=True), Children():
                self._children[path] = None

    def take(self, change: Change, path: str) -> bool:
        """Whether anybody waits for this change, who then does no more.

        Of a node that is deleted a server may tell twice where its data and its children were watched.
        """
        kinds: tuple[dict[str, None], ...]
        match change:
            case Change.CREATED | Change.DATA:
                kinds = (self._data, self._exists)
            case Change.DELETED:
                kinds = (self._data, self._exists, self._children)
            case Change.CHILDREN:
                kinds = (self._children,)
        found = [kind for kind in kinds if path in kind]
        for kind in found:
            del kind[path]
        return bool(found)

    def requests(self, relative_zxid: int) -> Iterator[SetWatches]:
        """What sets them again; the server tells of what has changed since that transaction."""
        return set_watches(relative_zxid, self._data, self._exists, self._children)

    def clear(self) -> None:
        self._data.clear()
        self._exists.clear()
        self._children.clear()
