"""Our brokers as members of a cluster, each a process started as a user starts it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.cluster import Cluster, ClusterMember
from harness.oncelog_process import OncelogNode


class OncelogMember(ClusterMember):
    """`oncelog serve` as a member of a cluster."""

    name = "oncelog"

    def command(self) -> list[str]:
        where = [] if "log.dirs" in self.settings else ["--data-dir", str(self.data_directory)]
        options = [f"--set={name}={value}" for name, value in self.settings.items()]
        listen = [] if "listeners" in self.settings else ["--listen", self.bootstrap_servers]
        return [OncelogNode.program(), "serve", *listen, *where, *options]


class OncelogCluster(Cluster):
    """As many of them, and no other brokers."""

    def __init__(self, directory: Path, size: int = 3, **settings: Any) -> None:
        super().__init__(directory, (OncelogMember,) * size, **settings)
