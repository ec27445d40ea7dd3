"""Requests and results as the bytes of ZooKeeper's client protocol (zookeeper.jute), written on kazoo's records."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from kazoo.protocol import serialization as jute
from kazoo.security import OPEN_ACL_UNSAFE

from oncelog.cluster.zookeeper.session import (
    Check,
    Children,
    Create,
    Created,
    Data,
    Delete,
    Done,
    Exists,
    GetChildren,
    GetData,
    Multi,
    NodeChange,
    Request,
    Result,
    Results,
    SetData,
    Stat,
    Write,
    ZooKeeperError,
)

WATCH_XID = -1
PING_XID = -2
CLOSE_XID = -3
"""Like a ping's number it is that of no request; a server sends back what it was given."""

OK = 0
NODE_EXISTS = -110
EPHEMERAL = 1
SEQUENTIAL = 2
MULTI_ERROR = -1
SET_WATCHES_BYTES_MAX = 128 * 1024
"""More in one request could be more than jute.maxbuffer, which the server answers with the end of the connection."""

ERRORS = {
    -101: ZooKeeperError.NO_NODE,
    -102: ZooKeeperError.NO_AUTH,
    -103: ZooKeeperError.BAD_VERSION,
    -108: ZooKeeperError.NO_CHILDREN_FOR_EPHEMERALS,
    NODE_EXISTS: ZooKeeperError.NODE_EXISTS,
    -111: ZooKeeperError.NOT_EMPTY,
    -112: ZooKeeperError.SESSION_EXPIRED,
    # SESSIONMOVED: the server that answers is not the session's any more, and ends the connection.
    -118: ZooKeeperError.CONNECTION_LOSS,
}
IN_A_MULTI = {OK: ZooKeeperError.ROLLED_BACK, -2: ZooKeeperError.NOT_TRIED}
CHANGES = {1: NodeChange.CREATED, 2: NodeChange.DELETED, 3: NodeChange.DATA, 4: NodeChange.CHILDREN}

_FRAME = struct.Struct("!iii")
_LENGTH = struct.Struct("!i")


class JuteRecord(Protocol):
    """A request as kazoo has it: a type and bytes."""

    @property
    def type(self) -> int: ...

    def serialize(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class SetWatches:
    """Sets the watches again on a new connection; the server reports what they have missed."""

    relative_zxid: int
    data: Sequence[str] = ()
    exists: Sequence[str] = ()
    children: Sequence[str] = ()
    type: int = 101

    def serialize(self) -> bytes:
        parts = [jute.long_struct.pack(self.relative_zxid)]
        for paths in (self.data, self.exists, self.children):
            parts.append(jute.int_struct.pack(len(paths)))
            parts += map(jute.write_string, paths)
        return b"".join(parts)


class Header(NamedTuple):
    """Header of an answer: the request's xid, the server's last zxid, and an error code."""

    xid: int
    zxid: int
    error: int


class Welcome(NamedTuple):
    """A server's answer to who wants a session, or wants to go on with one. It has expired where `timeout_ms` is 0."""

    timeout_ms: int
    session_id: int
    password: bytes


def frame(xid: int, record: JuteRecord) -> bytes:
    body = record.serialize()
    return _FRAME.pack(8 + len(body), xid, record.type) + body


def connect_frame(last_zxid: int, timeout_ms: int, session_id: int, password: bytes) -> bytes:
    body: bytes = jute.Connect(0, last_zxid, timeout_ms, session_id, password, False).serialize()
    return _LENGTH.pack(len(body)) + body


def ping_frame() -> bytes:
    return frame(PING_XID, jute.PingInstance)


def close_frame() -> bytes:
    return frame(CLOSE_XID, jute.CloseInstance)


def empty_node(path: str) -> JuteRecord:
    """Request that creates an empty node, by its full path."""
    made: JuteRecord = jute.Create(path, None, OPEN_ACL_UNSAFE, 0)
    return made


def set_watches(
    relative_zxid: int, data: Iterable[str], exists: Iterable[str], children: Iterable[str]
) -> Iterator[SetWatches]:
    """As many requests as it takes, each small enough."""
    batch: tuple[list[str], list[str], list[str]] = ([], [], [])
    size_bytes = 0
    for number, paths in enumerate((data, exists, children)):
        for path in paths:
            path_bytes = len(path.encode()) + _LENGTH.size
            if size_bytes and size_bytes + path_bytes > SET_WATCHES_BYTES_MAX:
                yield SetWatches(relative_zxid, *batch)
                batch, size_bytes = ([], [], []), 0
            batch[number].append(path)
            size_bytes += path_bytes
    if size_bytes:
        yield SetWatches(relative_zxid, *batch)


def record(request: Request, full: Callable[[str], str]) -> JuteRecord:
    """`full` puts the chroot before a path."""
    made: JuteRecord
    match request:
        case Multi(writes):
            made = jute.Transaction([_write(write, full, jute.Create) for write in writes])
        case GetData(path, watch):
            made = jute.GetData(full(path), watch)
        case Exists(path, watch):
            made = jute.Exists(full(path), watch)
        case GetChildren(path, watch):
            made = jute.GetChildren2(full(path), watch)
        case _:
            made = _write(request, full, jute.Create2)
    return made


def _write(write: Write, full: Callable[[str], str], create: Any) -> JuteRecord:
    made: JuteRecord
    match write:
        case Create(path, data, is_ephemeral, is_sequential):
            flags = is_ephemeral * EPHEMERAL | is_sequential * SEQUENTIAL
            made = create(full(path), data, OPEN_ACL_UNSAFE, flags)
        case Delete(path, version):
            made = jute.Delete(full(path), version)
        case SetData(path, data, version):
            made = jute.SetData(full(path), data, version)
        case Check(path, version):
            made = jute.CheckVersion(full(path), version)
    return made


def welcome(data: bytes) -> Welcome:
    """Raises struct.error."""
    answer, _ = jute.Connect.deserialize(data, 0)
    return Welcome(answer.time_out, answer.session_id, answer.passwd or b"")


def header(data: bytes) -> tuple[Header, int]:
    """The header, and where what follows it begins. Raises struct.error."""
    found, offset = jute.ReplyHeader.deserialize(data, 0)
    return Header(found.xid, found.zxid, found.err), offset


def watched(data: bytes, offset: int) -> tuple[NodeChange | None, str]:
    """Decodes an event: the change, and the full path. Raises struct.error."""
    event, _ = jute.Watch.deserialize(data, offset)
    return CHANGES.get(event.type), event.path


def error(code: int) -> ZooKeeperError:
    return ERRORS.get(code, ZooKeeperError.SYSTEM_ERROR)


def result(request: Request, data: bytes, offset: int, short: Callable[[str], str]) -> Result:
    """Decodes the body of a successful answer; `short` removes the chroot from a path. Raises struct.error."""
    match request:
        case Create():
            path, stat = jute.Create2.deserialize(data, offset)
            return Created(short(path), _stat(stat))
        case Delete():
            return Done()
        case SetData() | Exists():
            return Done(_stat(jute.SetData.deserialize(data, offset)))
        case GetData():
            content, stat = jute.GetData.deserialize(data, offset)
            return Data(content or b"", _stat(stat))
        case GetChildren():
            names, stat = jute.GetChildren2.deserialize(data, offset)
            return Children(tuple(sorted(names)), _stat(stat))
        case Multi():
            return Results(tuple(_each(data, offset, short)))


def _each(data: bytes, offset: int, short: Callable[[str], str]) -> Iterator[Created | Done | ZooKeeperError]:
    head, offset = jute.MultiHeader.deserialize(data, offset)
    while not head.done:
        if head.type == jute.Create.type:
            path, offset = jute.read_string(data, offset)
            yield Created(short(path), None)
        elif head.type == jute.SetData.type:
            yield Done(_stat(jute.SetData.deserialize(data, offset)))
            offset += jute.stat_struct.size
        elif head.type == MULTI_ERROR:
            (code,) = _LENGTH.unpack_from(data, offset)
            offset += _LENGTH.size
            yield IN_A_MULTI[code] if code in IN_A_MULTI else error(code)
        else:
            yield Done()
        head, offset = jute.MultiHeader.deserialize(data, offset)


def _stat(stat: Any) -> Stat:
    return Stat(
        stat.czxid,
        stat.mzxid,
        stat.version,
        stat.cversion,
        stat.ephemeralOwner,
        stat.numChildren,
        created_ms=stat.ctime,
        modified_ms=stat.mtime,
    )
