"""`oncelog cluster zookeeper`: the znodes of a cluster, readable, and without its secrets."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from oncelog.cli.cluster.session import ZooKeeperConnect, in_session
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.needs import check_kazoo
from oncelog.cli.options import Json
from oncelog.cli.tables import HIDDEN, print_json, print_table, printable, without_secrets

if TYPE_CHECKING:
    from oncelog.cluster.zookeeper.session import Stat, ZooKeeper

BELOW_USERS = re.compile(r"(^|/)config/users/")
FACTS = ("version", "bytes", "children", "created", "czxid", "modified", "mzxid", "session")
"""ZooKeeper's names. `session` is the owner of an ephemeral znode."""


class ReadZnode(NamedTuple):
    path: str
    data: bytes
    stat: Stat
    children: tuple[str, ...]


def zookeeper(
    connect: ZooKeeperConnect,
    path: Annotated[str, typer.Argument(metavar="ZNODE", help="Its path, below the chroot.")] = "/",
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="Show every znode below it, too.")] = False,
    as_json: Json = False,
) -> None:
    """Show a znode: its data, its version, when and by which transaction it was created and changed, and its children.

    SCRAM credentials and passwords among settings are not shown.
    """
    check_kazoo("cluster zookeeper")
    wanted = "/" + path.strip("/")
    if not path.startswith("/") or "//" in path:
        raise CommandError(f"{path!r} is no path of a znode: /brokers/ids is one", ExitStatus.USAGE)
    found = in_session(connect, lambda client: _read(client, wanted, recursive=recursive))
    if found is None:
        raise CommandError("the session with ZooKeeper ended before all was read", ExitStatus.FAILED)
    if not found:
        raise CommandError(f"there is no znode {wanted} in ZooKeeper at {connect}", ExitStatus.REFUSED)
    if as_json:
        values = [_json(one) for one in found]
        print_json(values if recursive else values[0])
        return
    for number, one in enumerate(found if recursive else found[:1]):
        if number:
            print()
        _print(one)
    if not recursive and found[1:]:
        print()
        print_table(("child", *FACTS), [{"child": _name(one), **_facts(one.stat, one.data)} for one in found[1:]])


async def _read(client: ZooKeeper, path: str, *, recursive: bool) -> list[ReadZnode]:
    """The znode, then its children or, with `recursive`, all znodes below it. Znodes deleted meanwhile are left out."""
    found: list[ReadZnode] = []
    level = [path]
    while level:
        read = await _read_all(client, level)
        found += read
        level = [f"{one.path.rstrip('/')}/{child}" for one in read for child in one.children]
        if not recursive and len(found) > 1:
            break
    return sorted(found, key=lambda one: one.path.split("/")) if recursive else found


async def _read_all(client: ZooKeeper, paths: list[str]) -> list[ReadZnode]:
    from oncelog.cluster.zookeeper.asking import read_each
    from oncelog.cluster.zookeeper.session import Children, Data, GetChildren, GetData, ZooKeeperError

    data = await read_each(client, [GetData(path) for path in paths])
    children = await read_each(client, [GetChildren(path) for path in paths])
    found: list[ReadZnode] = []
    for path, has, below in zip(paths, data, children, strict=True):
        if has is ZooKeeperError.NO_AUTH:
            raise CommandError(f"ZooKeeper lets nobody read {path} without a log-in", ExitStatus.REFUSED)
        if isinstance(has, Data) and isinstance(below, Children):
            found.append(ReadZnode(path, has.data, has.stat, below.names))
    return found


def _name(one: ReadZnode) -> str:
    return one.path.rpartition("/")[2]


def _facts(stat: Stat, data: bytes) -> dict[str, object]:
    return {
        "version": stat.version,
        "bytes": len(data),
        "children": stat.child_count,
        "created": _time(stat.created_ms),
        "czxid": f"{stat.czxid:#x}",
        "modified": _time(stat.modified_ms),
        "mzxid": f"{stat.mzxid:#x}",
        "session": f"{stat.ephemeral_owner & 0xFFFF_FFFF_FFFF_FFFF:#x}" if stat.ephemeral_owner else None,
    }


def _time(time_ms: int) -> str | None:
    """ZooKeeper's own znodes were made before it had a clock."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds") if time_ms else None


def readable(path: str, data: bytes) -> object:
    """The data as JSON, as text, or in base64, with secrets hidden; None if there is none."""
    is_a_users = BELOW_USERS.search(path) is not None
    try:
        text = data.decode()
        value = json.loads(text) if text else None
    except UnicodeDecodeError:
        return HIDDEN if is_a_users else {"base64": b64encode(data).decode()}
    except (ValueError, RecursionError):
        value = text
    return HIDDEN if is_a_users and value is not None and not isinstance(value, dict) else without_secrets(value)


def _json(one: ReadZnode) -> dict[str, object]:
    facts = {name: fact for name, fact in _facts(one.stat, one.data).items() if name != "children"}
    return {"path": one.path, "data": readable(one.path, one.data), **facts, "children": list(one.children)}


def _print(one: ReadZnode) -> None:
    print_table(FACTS, [_facts(one.stat, one.data)], title=one.path)
    value = readable(one.path, one.data)
    if value is not None:
        print()
        for line in [value] if isinstance(value, str) else _lines(value):
            print(printable(line))


def _lines(value: object, indent: str = "") -> Iterator[str]:
    """JSON with a line for each field, and lists of numbers or names in one."""
    if not isinstance(value, Mapping) or not value:
        yield json.dumps(value, ensure_ascii=False)
        return
    yield "{"
    inner = f"{indent}  "
    for number, (name, field) in enumerate(value.items(), start=1):
        first, *rest = _lines(field, inner)
        lines = [f"{inner}{json.dumps(name, ensure_ascii=False)}: {first}", *rest]
        lines[-1] += "," if number < len(value) else ""
        yield from lines
    yield f"{indent}}}"
