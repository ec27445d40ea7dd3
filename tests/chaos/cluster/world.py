"""A cluster whose every link leads through a network that a test may cut, and whose disks may be full."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from harness.cluster import CHROOT, Cluster, ClusterMember
from harness.network import CLIENTS, Network, broker_name, opener_by_client_id
from harness.oncelog_cluster import OncelogMember
from harness.processes import free_port
from harness.small_disk import SmallDisk

BETWEEN = "BETWEEN"
ZOOKEEPER_SIZE = 3
SETTINGS = {
    "zookeeper.session.timeout.ms": "3000",
    "zookeeper.connection.timeout.ms": "60000",
    "replica.lag.time.max.ms": "3000",
    "replica.socket.timeout.ms": "4000",
    "controller.socket.timeout.ms": "4000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "leader.imbalance.check.interval.seconds": "5",
    "num.replica.fetchers": "2",
    "group.min.session.timeout.ms": "1000",
    "log.segment.bytes": str(1 << 20),
    "log.dir.reserve.bytes": str(1 << 20),
    # Each broker cleans by itself: what one has cleaned and another has not is not the same bytes.
    "log.cleaner.enable": "false",
}
"""Whatever a cut or a stopped broker makes the others wait for comes soon."""


NOT_KEPT = ("*.index", "*.timeindex", "oncelog-reserve")


class InformativeMember(OncelogMember):
    """A broker that says who leads, who is in sync, and why."""

    def command(self) -> list[str]:
        return [*super().command(), "--log-level", "info"]


class FragileCluster:
    """`size` brokers and three ZooKeeper servers. What was on their disks stays where an exception ends it."""

    def __init__(self, directory: Path, size: int) -> None:
        self.network = Network()
        self.cluster = Cluster(directory, (InformativeMember,) * size, zookeeper_size=ZOOKEEPER_SIZE, **SETTINGS)
        assert self.cluster.zookeeper is not None
        self.zookeeper = self.cluster.zookeeper
        self._entrances: list[int] = []
        self.disks: dict[int, SmallDisk] = {}
        for member in self.cluster.brokers.values():
            self._connect(member)
            self._mount(member)

    @property
    def bootstrap_servers(self) -> str:
        """Where clients come in: through the network."""
        return ",".join(f"127.0.0.1:{port}" for port in self._entrances)

    @property
    def servers(self) -> list[str]:
        """The names of the ZooKeeper servers."""
        return [_server_name(server.number) for server in self.zookeeper.servers]

    def others(self, broker_ids: Iterable[int]) -> list[str]:
        """The names of all brokers but these."""
        left_out = set(broker_ids)
        return [broker_name(one) for one in self.cluster.brokers if one not in left_out]

    def __enter__(self) -> FragileCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cluster.kill()
        self.network.close()
        for broker_id, disk in self.disks.items():
            member = self.cluster.brokers[broker_id]
            if kind is not None and member.data_directory.exists():
                kept = member.directory / "data at the end"
                shutil.copytree(member.data_directory, kept, ignore=shutil.ignore_patterns(*NOT_KEPT))
            disk.unmount()

    def _connect(self, member: ClusterMember) -> None:
        name, inner = broker_name(member.broker_id), free_port()
        from_clients = self.network.entrance(name, member.port, CLIENTS)
        from_brokers = self.network.entrance(name, inner, opener_by_client_id)
        self._entrances.append(from_clients)
        member.configure(
            **{
                "listeners": f"{CLIENTS}://{member.bootstrap_servers},{BETWEEN}://127.0.0.1:{inner}",
                "advertised.listeners": f"{CLIENTS}://127.0.0.1:{from_clients},{BETWEEN}://127.0.0.1:{from_brokers}",
                "listener.security.protocol.map": f"{CLIENTS}:PLAINTEXT,{BETWEEN}:PLAINTEXT",
                "inter.broker.listener.name": BETWEEN,
            }
        )
        servers = [
            self.network.entrance(_server_name(server.number), server.port, name) for server in self.zookeeper.servers
        ]
        member.zookeeper_connect = ",".join(f"127.0.0.1:{port}" for port in servers) + CHROOT

    def _mount(self, member: ClusterMember) -> None:
        """Where nothing may be mounted, no disk gets full."""
        disk = SmallDisk(member.directory / "disk")
        if disk.mount():
            self.disks[member.broker_id] = disk
            member.data_directory = disk.path / "data"


def _server_name(number: int) -> str:
    return f"zookeeper {number}"
