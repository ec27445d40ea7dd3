"""The nodes of an ensemble, and what a request does to them. Rules are those of PrepRequestProcessor and DataTree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from oncelog.cluster.zookeeper.session import (
    ANY_VERSION,
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
    Result,
    Results,
    SetData,
    Stat,
    Write,
    ZooKeeperError,
)

Read = GetData | Exists | GetChildren
Updating = Create | Delete | SetData | Multi
Changes = list[tuple[NodeChange, str]]


@dataclass(slots=True)
class Znode:
    data: bytes
    czxid: int
    mzxid: int
    pzxid: int
    """The transaction that made or deleted a child last."""
    ephemeral_owner: int = 0
    version: int = 0
    created_children: int = 0
    """How many there ever were: what sequential names count."""
    children: set[str] = field(default_factory=set)

    @property
    def stat(self) -> Stat:
        # Every making and every deletion of a child is a change.
        children_version = 2 * self.created_children - len(self.children)
        return Stat(self.czxid, self.mzxid, self.version, children_version, self.ephemeral_owner, len(self.children))


class Tree:
    def __init__(self) -> None:
        self._nodes: dict[str, Znode] = {"/": Znode(b"", 0, 0, 0)}
        self._ephemerals: dict[int, dict[str, None]] = {}

    def node(self, path: str) -> Znode | None:
        return self._nodes.get(path)

    def read(self, request: Read) -> Result:
        node = self._nodes.get(request.path)
        if node is None:
            return ZooKeeperError.NO_NODE
        match request:
            case GetData():
                return Data(node.data, node.stat)
            case Exists():
                return Done(node.stat)
            case GetChildren():
                return Children(tuple(sorted(node.children)), node.stat)

    def update(self, request: Updating, zxid: int, session_id: int) -> tuple[Result, Changes]:
        """Carry it out as transaction `zxid`: the result, and what watches may hear of, in order."""
        changes: Changes = []
        if not isinstance(request, Multi):
            return self._write(request, zxid, session_id, changes), changes
        kept: dict[str, Znode | None] = {}
        results: list[Created | Done | ZooKeeperError] = []
        for write in request.writes:
            self._keep(write, kept)
            result = self._write(write, zxid, session_id, changes)
            if isinstance(result, ZooKeeperError):
                self._restore(kept)
                return Results(_rolled_back(request.writes, len(results), result)), []
            results.append(replace(result, stat=None) if isinstance(result, Created) else result)
            if isinstance(result, Created):
                kept.setdefault(result.path, None)
        return Results(tuple(results)), changes

    def end_session(self, session_id: int, zxid: int) -> Changes:
        """Delete the nodes that live as long as it."""
        changes: Changes = []
        for path in list(self._ephemerals.pop(session_id, ())):
            self._delete(path, zxid, changes)
        return changes

    def _write(self, write: Write, zxid: int, session_id: int, changes: Changes) -> Created | Done | ZooKeeperError:
        match write:
            case Create():
                return self._create(write, zxid, session_id if write.is_ephemeral else 0, changes)
            case Delete(path, version):
                error = self._wrong_version(path, version) or self._not_empty(path)
                return error or self._delete(path, zxid, changes)
            case SetData(path, data, version):
                return self._wrong_version(path, version) or self._set(path, data, zxid, changes)
            case Check(path, version):
                return self._wrong_version(path, version) or Done()

    def _create(self, create: Create, zxid: int, owner: int, changes: Changes) -> Created | ZooKeeperError:
        parent = self._nodes.get(parent_of(create.path))
        if parent is None:
            return ZooKeeperError.NO_NODE
        path = f"{create.path}{parent.created_children:010d}" if create.is_sequential else create.path
        if path in self._nodes:
            return ZooKeeperError.NODE_EXISTS
        if parent.ephemeral_owner:
            return ZooKeeperError.NO_CHILDREN_FOR_EPHEMERALS
        node = self._nodes[path] = Znode(create.data or b"", zxid, zxid, zxid, owner)
        parent.children.add(name_of(path))
        parent.created_children += 1
        parent.pzxid = zxid
        if owner:
            self._ephemerals.setdefault(owner, {})[path] = None
        changes += [(NodeChange.CREATED, path), (NodeChange.CHILDREN, parent_of(path))]
        return Created(path, node.stat)

    def _delete(self, path: str, zxid: int, changes: Changes) -> Done:
        assert path != "/", "nobody deletes the root"
        node = self._nodes.pop(path)
        if node.ephemeral_owner in self._ephemerals:
            del self._ephemerals[node.ephemeral_owner][path]
        parent = self._nodes[parent_of(path)]
        parent.children.remove(name_of(path))
        parent.pzxid = zxid
        changes += [(NodeChange.DELETED, path), (NodeChange.CHILDREN, parent_of(path))]
        return Done()

    def _set(self, path: str, data: bytes, zxid: int, changes: Changes) -> Done:
        node = self._nodes[path]
        node.data, node.mzxid = data, zxid
        node.version += 1
        changes.append((NodeChange.DATA, path))
        return Done(node.stat)

    def _wrong_version(self, path: str, version: int) -> ZooKeeperError | None:
        node = self._nodes.get(path)
        if node is None:
            return ZooKeeperError.NO_NODE
        return ZooKeeperError.BAD_VERSION if version not in (ANY_VERSION, node.version) else None

    def _not_empty(self, path: str) -> ZooKeeperError | None:
        return ZooKeeperError.NOT_EMPTY if self._nodes[path].children else None

    def _keep(self, write: Write, kept: dict[str, Znode | None]) -> None:
        """Keeps the nodes before a write, for a rollback."""
        paths = (write.path, parent_of(write.path)) if isinstance(write, Create | Delete) else (write.path,)
        for path in paths:
            if path not in kept:
                node = self._nodes.get(path)
                kept[path] = replace(node, children=set(node.children)) if node is not None else None

    def _restore(self, kept: dict[str, Znode | None]) -> None:
        for path, before in kept.items():
            now = self._nodes.pop(path, None)
            if now is not None and now.ephemeral_owner:
                del self._ephemerals[now.ephemeral_owner][path]
            if before is not None:
                self._nodes[path] = before
                if before.ephemeral_owner:
                    self._ephemerals.setdefault(before.ephemeral_owner, {})[path] = None


def _rolled_back(
    writes: Sequence[Write], failed: int, error: ZooKeeperError
) -> tuple[Created | Done | ZooKeeperError, ...]:
    behind = len(writes) - failed - 1
    return (*(ZooKeeperError.ROLLED_BACK,) * failed, error, *(ZooKeeperError.NOT_TRIED,) * behind)


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def name_of(path: str) -> str:
    return path.rpartition("/")[2]
