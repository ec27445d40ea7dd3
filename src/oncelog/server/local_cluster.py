"""A cluster on one machine: ZooKeeper and brokers, each a process of its own with its data below one directory."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from oncelog.broker import Endpoint
from oncelog.client import Client, ClientError
from oncelog.server.listening import parse_address
from oncelog.server.member_process import Event, MemberError, MemberProcess

REPLICAS_MAX = 3
START_SECONDS = 90.0
PROBE_SECONDS, PROBE_TIMEOUT_MS = 0.03, 2_000
OF_EACH_BROKER = ("broker.id", "listeners", "advertised.listeners", "log.dir", "log.dirs", "zookeeper.connect")
"""Settings that must differ from broker to broker."""
CLIENTS, BROKERS = "PLAINTEXT", "BROKERS"
"""The listeners of each broker. The second is on the loopback interface, and requests of brokers are served there alone."""
LISTENERS = {
    "listener.security.protocol.map": f"{CLIENTS}:PLAINTEXT,{BROKERS}:PLAINTEXT",
    "inter.broker.listener.name": BROKERS,
}
SAID_OTHERWISE = "security.inter.broker.protocol"
PATIENT = {
    "zookeeper.session.timeout.ms": "6000",
    "zookeeper.connection.timeout.ms": "60000",
    "controlled.shutdown.retry.backoff.ms": "500",
}
"""On one machine the network loses nothing, so a broker that is not heard of is dead soon. They start while ZooKeeper does,
and the last one to stop does not wait for another that could lead."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The directories, ports and settings of a cluster. Port 0 takes a free one; others count up from broker 1's."""

    directory: Path
    size: int
    listen: str
    zookeeper_listen: str
    settings: Mapping[str, str]
    zookeeper_settings: Mapping[str, str]

    def __post_init__(self) -> None:
        """Raises ValueError."""
        parse_address(self.zookeeper_listen)
        _, port = parse_address(self.listen)
        if self.size < 1:
            raise ValueError(f"a cluster has one broker or more, not {self.size}")
        if port and port + self.size - 1 > 65535:
            raise ValueError(f"there are no {self.size} ports from {port} on")
        for name in OF_EACH_BROKER:
            if name in self.settings:
                raise ValueError(f"{name} differs from broker to broker, and cannot be set for all of them")
        for name in (*LISTENERS, SAID_OTHERWISE):
            if name in self.settings:
                raise ValueError(
                    f"{name} cannot be set: brokers reach each other at a listener of their own, {BROKERS}"
                )

    def address(self, broker_id: int) -> str:
        """HOST:PORT of the broker with this id; they count from 1."""
        host, port = parse_address(self.listen)
        return Endpoint(CLIENTS, host, port and port + broker_id - 1).address

    @property
    def broker_settings(self) -> dict[str, str]:
        """The settings of all brokers. The given ones override the defaults."""
        replicas = min(self.size, REPLICAS_MAX)
        in_sync_min = max(1, replicas - 1)
        replication = {
            "default.replication.factor": str(replicas),
            "min.insync.replicas": str(in_sync_min),
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(in_sync_min),
        }
        return PATIENT | replication | LISTENERS | dict(self.settings)


class LocalBroker:
    """One broker of a cluster. Whatever becomes of its process, it is found at the same address afterwards."""

    def __init__(self, plan: ClusterPlan, broker_id: int, zookeeper: str, report: Callable[[Event], None]) -> None:
        self.broker_id = broker_id
        self.process = MemberProcess(f"broker {broker_id}", report)
        self.directory = plan.directory / f"broker-{broker_id}"
        self._address = plan.address(broker_id)
        self._settings = plan.broker_settings | {"broker.id": str(broker_id), "zookeeper.connect": zookeeper}

    @property
    def bootstrap_servers(self) -> str:
        """Its HOST:PORT. Only what has been ready once has a port, where a free one was to be taken."""
        if self.process.ready_line:
            self._address = self.process.ready_line.partition("://")[2].partition(" ")[0]
        return self._address

    @property
    def whereabouts(self) -> str:
        """The text that tells the user where clients reach the cluster, and where its data is."""
        return f"{self.bootstrap_servers}, {self.process.ready_line.partition(', ')[2]}"

    def launch(self) -> None:
        """Start its process, and wait for nothing."""
        listeners = f"{CLIENTS}://{self.bootstrap_servers},{BROKERS}://127.0.0.1:0"
        settings = [f"--set={name}={value}" for name, value in (self._settings | {"listeners": listeners}).items()]
        self.process.launch(["serve", "--data-dir", str(self.directory), *settings])


class LocalCluster:
    """Brokers 1, 2, … and their ZooKeeper. What happens to them is reported on threads of their own."""

    def __init__(self, plan: ClusterPlan, report: Callable[[Event], None]) -> None:
        """Raises OSError where no port can be had for ZooKeeper."""
        self.plan = plan
        self.zookeeper = MemberProcess("ZooKeeper", report)
        self.zookeeper_directory = plan.directory / "zookeeper"
        self.zookeeper_connect = _with_port(plan.zookeeper_listen)
        numbers = range(1, plan.size + 1)
        self.brokers = {number: LocalBroker(plan, number, self.zookeeper_connect, report) for number in numbers}

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    @property
    def members(self) -> list[MemberProcess]:
        return [self.zookeeper, *(broker.process for broker in self.brokers.values())]

    def launch(self) -> None:
        """Start every process, and wait for nothing: the brokers wait for ZooKeeper themselves."""
        self.launch_zookeeper()
        for broker in self.brokers.values():
            broker.launch()

    def launch_zookeeper(self) -> None:
        """Start its process, and wait for nothing."""
        settings = [f"--set={name}={value}" for name, value in self.plan.zookeeper_settings.items()]
        self.zookeeper.launch(
            [
                *("zookeeper", "--data-dir", str(self.zookeeper_directory)),
                *("--listen", self.zookeeper_connect, *settings),
            ]
        )

    def wait_until_ready(self) -> None:
        """Raises MemberError where one of them does not start, or they do not find each other."""
        for member in self.members:
            member.wait_until_ready(START_SECONDS)
        deadline = time.monotonic() + START_SECONDS
        while not self.is_joined():
            if time.monotonic() > deadline:
                raise MemberError(f"the brokers did not find each other in {START_SECONDS:.0f} s")
            time.sleep(PROBE_SECONDS)

    def is_joined(self) -> bool:
        """True if each running broker knows all others, and one of them is the controller."""
        running = {number: broker for number, broker in self.brokers.items() if broker.process.is_running}
        return all(self.known_to(broker) >= running.keys() for broker in running.values())

    @staticmethod
    def known_to(broker: LocalBroker) -> set[int]:
        """The brokers that this one was told of; none as long as it knows no controller among them."""
        try:
            with Client(broker.bootstrap_servers, call_timeout_ms=PROBE_TIMEOUT_MS) as client:
                found = client.describe_cluster()
        except ClientError:
            return set()
        known = {node.node_id for node in found.nodes}
        return known if found.controller_id in known else set()

    def stop(self) -> None:
        """A clean stop: the brokers one after the other, so that each hands over what it leads, then ZooKeeper.

        Raises MemberError when all have ended, where one of them had to be killed.
        """
        failures = []
        for member in (*(broker.process for broker in self.brokers.values()), self.zookeeper):
            try:
                member.stop()
            except MemberError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def give_up(self) -> None:
        """Let a `stop` that is under way wait for no broker any more. A signal handler may call it."""
        for broker in self.brokers.values():
            broker.process.give_up()

    def kill(self) -> None:
        """An end that the brokers are not asked about. ZooKeeper stops cleanly, with its Java."""
        for broker in self.brokers.values():
            broker.process.kill()
        with suppress(MemberError):
            self.zookeeper.stop()


def _with_port(listen: str) -> str:
    """The same address with a free port, where its port is 0. Raises OSError."""
    host, port = parse_address(listen)
    if port:
        return listen
    family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.bind(address)
        return f"{listen.rpartition(':')[0]}:{probe.getsockname()[1]}"
