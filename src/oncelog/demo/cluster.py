"""The cluster of the demo, over a ZooKeeper server of its own."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from oncelog.client import Client, ClientError, PartitionDescription
from oncelog.coordination.internal_topics import partition_for
from oncelog.demo.brokers import ClusterState
from oncelog.demo.kills import Kill, Victim, cluster_kills
from oncelog.demo.plan import Guarantee
from oncelog.demo.processes import ProcessError
from oncelog.server.listening import parse_address
from oncelog.server.local_cluster import REPLICAS_MAX, START_SECONDS, ClusterPlan, LocalBroker, LocalCluster
from oncelog.server.member_process import Complained, Ended, Event, MemberError, MemberProcess

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes(pid: int) -> int:
    """The resident bytes of a process and its children; 0 if it is gone."""
    total = 0
    with suppress(OSError):
        total = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(map(resident_bytes, map(int, (task / "children").read_text().split())))
    return total


ANY_FREE_PORT = "127.0.0.1:0"
TRANSACTIONS, OFFSETS = "__transaction_state", "__consumer_offsets"
WHOLE_SECONDS = 120.0
LOOK_SECONDS = 0.2
CALL_TIMEOUT_MS = 5_000


class DemoCluster:
    """A cluster whose members keep their address and data when they are killed."""

    replication_factor = REPLICAS_MAX
    micro_batches = 12

    def __init__(self, directory: Path, size: int, seed: int) -> None:
        self._directory = directory
        self._seed = seed
        plan = ClusterPlan(directory / "data", size, ANY_FREE_PORT, ANY_FREE_PORT, {}, {})
        self._cluster = LocalCluster(plan, self._report)
        self._victim: MemberProcess | None = None
        self._complaint: str | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    @property
    def complaint(self) -> str | None:
        return self._complaint

    def start(self) -> None:
        try:
            self._cluster.launch()
            self._cluster.wait_until_ready()
        except MemberError as error:
            raise ProcessError(str(error)) from error

    def kills(self, guarantee: Guarantee) -> tuple[Kill, ...]:
        return cluster_kills(guarantee, self._seed)

    def kill(self, kill: Kill, topic: str) -> str:
        """Wait until the last victim is back, then kill: one member at a time is away."""
        try:
            self.wait_until_whole()
            if kill.victim is Victim.ZOOKEEPER:
                return self._kill_zookeeper()
            return self._kill_broker(*self._found(kill, topic))
        except ProcessError as error:
            self._complain(str(error))
            raise

    def wait_until_whole(self) -> None:
        self._until(self._is_whole, "the cluster is whole")

    def state(self) -> ClusterState:
        known = [self._partitions(broker) for broker in self._cluster.brokers.values()]
        return ClusterState(
            seed=self._seed,
            under_replicated=max(sum(map(_is_under_replicated, partitions)) for partitions in known),
            offline=max(sum(partition.leader < 0 for partition in partitions) for partitions in known),
            resident_bytes={member.name: resident_bytes(member.pid) for member in self._cluster.members},
        )

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        self._cluster.kill()

    def _found(self, kill: Kill, topic: str) -> tuple[LocalBroker, str]:
        """The broker to kill, once there is one, and its role."""
        found: list[int] = []

        def is_there() -> bool:
            found[:] = [self._id_of(kill, topic)]
            return found[0] in self._cluster.brokers

        self._until(is_there, f"there is a {kill.victim.value}")
        role = kill.victim.value
        if kill.victim is Victim.PARTITION_LEADER:
            role = f"leader of {topic}-{kill.partition}"
        return self._cluster.brokers[found[0]], role

    def _id_of(self, kill: Kill, topic: str) -> int:
        """The id of the broker in this role; -1 if there is none. A pipeline's group and transactional id are its topic."""
        with suppress(ClientError), self._client() as client:
            match kill.victim:
                case Victim.CONTROLLER:
                    return client.describe_cluster().controller_id
                case Victim.PARTITION_LEADER:
                    return _leader(client, topic, lambda _: kill.partition)
                case Victim.TRANSACTION_COORDINATOR:
                    return _leader(client, TRANSACTIONS, lambda count: partition_for(topic, count))
                case Victim.GROUP_COORDINATOR:
                    return _leader(client, OFFSETS, lambda count: partition_for(topic, count))
        return -1

    def _kill_broker(self, broker: LocalBroker, role: str) -> str:
        """Kill it; it starts again once the others go on without it."""

        def come_back() -> None:
            others = [other for other in self._cluster.brokers.values() if other is not broker]
            gone = [broker.broker_id]
            self._until(
                lambda: all(known and known.isdisjoint(gone) for known in map(self._cluster.known_to, others)),
                f"the others go on without {broker.process.name}",
            )
            self._launch(broker.launch)

        self._kill(broker.process, come_back)
        return f"{broker.process.name}, {role},"

    def _kill_zookeeper(self) -> str:
        """Kill the command; Linux kills its Java with it. Sessions outlive both."""
        address = parse_address(self._cluster.zookeeper_connect)

        def come_back() -> None:
            self._until(lambda: not _accepts_connections(address), "ZooKeeper's Java is gone")
            self._launch(self._cluster.launch_zookeeper)

        self._kill(self._cluster.zookeeper, come_back)
        return self._cluster.zookeeper.name

    def _kill(self, member: MemberProcess, come_back: Callable[[], None]) -> None:
        with self._lock:
            self._check_open()
            self._victim = member
            member.kill()
            self._victim = None
        name = f"{member.name}'s restart"
        threading.Thread(target=self._restart, args=(member, come_back), name=name, daemon=True).start()

    def _restart(self, member: MemberProcess, come_back: Callable[[], None]) -> None:
        try:
            come_back()
            member.wait_until_ready(START_SECONDS)
        except (ProcessError, MemberError) as error:
            self._complain(str(error))

    def _launch(self, launch: Callable[[], None]) -> None:
        with self._lock:
            self._check_open()
            launch()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ProcessError("the demo is over")

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition. Raises ProcessError where it takes too long, and at the end of the demo."""
        latest = time.monotonic() + WHOLE_SECONDS
        while not condition():
            self._check_open()
            if self._complaint is not None:
                raise ProcessError(self._complaint)
            if time.monotonic() > latest:
                raise ProcessError(f"it took more than {WHOLE_SECONDS:.0f} s until {what}")
            time.sleep(LOOK_SECONDS)

    def _is_whole(self) -> bool:
        """True if all members serve, and every broker's metadata has all brokers and all replicas in sync."""
        if not all(member.is_running and member.ready_line for member in self._cluster.members):
            return False
        if not self._cluster.is_joined():
            return False
        known = (self._partitions(broker) for broker in self._cluster.brokers.values())
        return all(partitions and not any(map(_is_under_replicated, partitions)) for partitions in known)

    @staticmethod
    def _partitions(broker: LocalBroker) -> list[PartitionDescription]:
        """The partitions in the metadata of this broker; none if it does not answer."""
        with suppress(ClientError), Client(broker.bootstrap_servers, call_timeout_ms=CALL_TIMEOUT_MS) as client:
            return [partition for topic in client.metadata().values() for partition in topic.partitions]
        return []

    def _client(self) -> Client:
        return Client(self.bootstrap_servers, call_timeout_ms=CALL_TIMEOUT_MS)

    def _report(self, event: Event) -> None:
        """Called on threads of the members."""
        member = event.member
        if isinstance(event, Complained):
            file = self._directory / f"{member.name.lower().replace(' ', '-')}.txt"
            with open(file, "a") as lines:
                lines.write(f"{event.line}\n")
        elif isinstance(event, Ended) and member is not self._victim and not self._is_closed:
            self._complain(f"{member.name} stopped by itself: {member.last_words}")

    def _complain(self, sentence: str) -> None:
        if not self._is_closed and self._complaint is None:
            self._complaint = sentence


def _leader(client: Client, topic: str, choose: Callable[[int], int]) -> int:
    """The leader of the partition that `choose` selects, given their number; -1 if there is none."""
    partitions = client.metadata([topic])[topic].partitions
    if not partitions:
        return -1
    chosen = choose(len(partitions))
    return next(partition.leader for partition in partitions if partition.partition == chosen)


def _is_under_replicated(partition: PartitionDescription) -> bool:
    return len(partition.in_sync_replicas) < len(partition.replicas)


def _accepts_connections(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=1).close()
    except OSError:
        return False
    return True
