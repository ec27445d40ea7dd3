"""Addresses of an ensemble's servers: the setting zookeeper.connect."""

from __future__ import annotations

from dataclasses import dataclass

PORT = 2181


@dataclass(frozen=True, slots=True)
class Ensemble:
    """`chroot` is the path that all paths are below; empty without one."""

    servers: tuple[tuple[str, int], ...]
    chroot: str = ""


def parse_ensemble(connect: str) -> Ensemble:
    """Read HOST:PORT[,HOST:PORT…][/chroot]. Raises ValueError."""
    hosts, slash, chroot = connect.partition("/")
    servers = tuple(_server(host.strip(), connect) for host in hosts.split(",") if host.strip())
    if not servers:
        raise ValueError(f"zookeeper.connect={connect} names no server: give HOST:PORT, for example 127.0.0.1:{PORT}")
    names = chroot.rstrip("/").split("/") if chroot.strip("/") else []
    if any(name in ("", ".", "..") for name in names):
        raise ValueError(f"zookeeper.connect={connect} is not allowed: {slash}{chroot} is not a path of ZooKeeper")
    return Ensemble(servers, "".join(f"/{name}" for name in names))


def _server(text: str, connect: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(PORT)
    if not host or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise ValueError(
            f"zookeeper.connect={connect} is not allowed: {text!r} is not an address: give HOST:PORT, "
            f"for example 127.0.0.1:{PORT}"
        )
    return host.strip("[]"), int(port)
