"""Requests to ZooKeeper and their results as values, and the port of a client.

Names and rules are those of ZooKeeper's client protocol (zookeeper.jute, KeeperException). An error is a value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from oncelog.coordination import Promise

ANY_VERSION = -1
"""A write with it is done whatever the version of the node is."""


class ZooKeeperError(Enum):
    """Why a request failed. After CONNECTION_LOSS it may have been carried out."""

    NO_NODE = auto()
    NODE_EXISTS = auto()
    BAD_VERSION = auto()
    NOT_EMPTY = auto()
    NO_CHILDREN_FOR_EPHEMERALS = auto()
    NO_AUTH = auto()
    ROLLED_BACK = auto()
    """An operation of a multi that was good by itself, where another one was not; code 0 on the wire."""
    NOT_TRIED = auto()
    """An operation of a multi behind the one that failed: RUNTIMEINCONSISTENCY on the wire."""
    CONNECTION_LOSS = auto()
    SESSION_EXPIRED = auto()
    SYSTEM_ERROR = auto()
    """Any other answer of a server, for example BADARGUMENTS; the log has its code. Nothing was done."""


@dataclass(frozen=True, slots=True)
class Stat:
    """Versions count the changes of a node; czxid and mzxid are the transactions that made it and changed it last."""

    czxid: int
    mzxid: int
    version: int
    children_version: int
    ephemeral_owner: int
    """The session that the node lives as long as; 0 for one that stays."""
    child_count: int
    created_ms: int = 0
    """When the server that made it thought that was, and at `modified_ms` changed it last; 0 where no clock is."""
    modified_ms: int = 0


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes | None = None
    """None is ZooKeeper's null: Kafka reads such a node as one that has no value yet, and fails on an empty one."""
    is_ephemeral: bool = False
    is_sequential: bool = False
    """The name gets ten digits that count up under its parent."""


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class SetData:
    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """In a multi: that a node has this version."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class GetData:
    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Exists:
    """With `watch` the creation of a missing node is reported, too. The result for a missing node is NO_NODE."""

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class GetChildren:
    path: str
    watch: bool = False


Write = Create | Delete | SetData | Check


@dataclass(frozen=True, slots=True)
class Multi:
    """All of them or none, as one transaction."""

    writes: tuple[Write, ...]


Request = Create | Delete | SetData | GetData | Exists | GetChildren | Multi


@dataclass(frozen=True, slots=True)
class Created:
    """`path` has the digits of a sequential node. A multi has no stat."""

    path: str
    stat: Stat | None


@dataclass(frozen=True, slots=True)
class Done:
    """Result of Delete, SetData, Check and Exists; `stat` is the node's, if it exists afterwards."""

    stat: Stat | None = None


@dataclass(frozen=True, slots=True)
class Data:
    """Result of GetData; `data` is empty for a node without data."""

    data: bytes
    stat: Stat


@dataclass(frozen=True, slots=True)
class Children:
    """The names without their parent's path, sorted."""

    names: tuple[str, ...]
    stat: Stat


@dataclass(frozen=True, slots=True)
class Results:
    """Result of a multi, one for each write. If one is an error, all are, and nothing was done."""

    each: tuple[Created | Done | ZooKeeperError, ...]


Result = Created | Done | Data | Children | Results | ZooKeeperError


class NodeChange(Enum):
    """The kind of change that a watch reports."""

    CREATED = auto()
    DELETED = auto()
    DATA = auto()
    CHILDREN = auto()


@dataclass(frozen=True, slots=True)
class Watched:
    """An event of a watch. A watch fires once: further changes before the next read are not reported.

    Changes during a lost connection are reported on the next one as their net effect: a node that was deleted and created again
    has changed its DATA.
    """

    path: str
    change: NodeChange


class ZooKeeperSessionState(Enum):
    CONNECTED = auto()
    DISCONNECTED = auto()
    """The session may live on: ephemeral nodes are there until it expires, and watches come back with the connection.

    A server that answers nothing is left after two thirds of the session's timeout, at the latest after five sixths: then the
    session has not expired yet. That it has is only known from a server, however long there is none.
    """
    EXPIRED = auto()
    """Its ephemeral nodes and watches are gone. A new session begins by itself; CONNECTED reports it."""


class ZooKeeper(Protocol):
    """A client: one session after another.

    Requests are carried out, and results come, in the order in which they were handed in; of watches and results the one that
    happened first comes first. DISCONNECTED and EXPIRED come before the results of the requests that they end, CONNECTED comes
    before all results and watches of its connection. What is handed in once EXPIRED is called back belongs to the next session.
    Paths begin with "/", below the chroot. All callbacks come on the caller's own thread of control.
    """

    on_watched: Callable[[Watched], None]
    on_session: Callable[[ZooKeeperSessionState], None]

    @property
    def session_id(self) -> int:
        """0 while there is none."""
        ...

    @property
    def session_timeout_ms(self) -> int:
        """The session timeout, as the servers decided it."""
        ...

    @property
    def silence_ms(self) -> float:
        """Time since the newest answered request was sent: the servers may have received nothing since.

        The session does not expire before this is `session_timeout_ms`, unless the answering server has lost its leader: it
        goes on alone for syncLimit times tickTime at most.
        """
        ...

    def submit(self, request: Request) -> Promise[Result]:
        """Hand in a request. Without a connection it waits for one; it ends with CONNECTION_LOSS if the connection breaks
        while it is under way, and with SESSION_EXPIRED if the session does before it was sent.
        """
        ...

    def close(self) -> None:
        """End the session, and with it its ephemeral nodes. Nothing is called back any more."""
        ...
