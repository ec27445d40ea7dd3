"""A real ZooKeeper, one server or an ensemble, from the jars that come with PySpark or with Kafka."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from kazoo.client import KazooClient

from harness import requirements
from harness.processes import BrokerProcess, free_port

MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
RUNTIME = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.apache.logging.log4j.level=WARN")
NOT_FORCED = "-Dzookeeper.forceSync=no"
"""Tests kill processes and cut no power: what was written is there without waiting for the disk."""
TICK_MS = 500
ANSWER_BYTES_MAX = 1 << 16


def pyspark_classpath() -> str:
    """The jars of the installed PySpark, where a ZooKeeper is. Without PySpark the test is not run."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        requirements.not_run("there is no PySpark, whose jars have a ZooKeeper")
    return str(Path(found.origin).with_name("jars") / "*")


class ZooKeeperServer(BrokerProcess):
    """One server, alone or a member of an ensemble: `members` has the address of each for the others, by its id."""

    name = "ZooKeeper"

    def __init__(
        self, directory: Path, classpath: str, number: int = 1, members: Mapping[int, str] | None = None
    ) -> None:
        super().__init__(directory)
        self.number = number
        self._java = requirements.java()
        self._classpath = classpath
        self._file = directory / "zoo.cfg"
        self._file.write_text("".join(f"{name}={value}\n" for name, value in self._settings(members or {}).items()))
        (directory / "data").mkdir()
        (directory / "data" / "myid").write_text(str(number))

    @property
    def connect(self) -> str:
        return self.bootstrap_servers

    @property
    def is_leader(self) -> bool:
        """Of an ensemble. One that runs alone leads nobody."""
        return "Mode: leader" in self.ask("srvr")

    def command(self) -> list[str]:
        return [self._java, *RUNTIME, NOT_FORCED, "-cp", self._classpath, MAIN, str(self._file)]

    def ask(self, word: str) -> str:
        """The answer to one of ZooKeeper's words of four letters; nothing where the server does not answer."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(word.encode())
                return connection.recv(ANSWER_BYTES_MAX, socket.MSG_WAITALL).decode()
        except OSError:
            return ""

    def _settings(self, members: Mapping[int, str]) -> dict[str, object]:
        return {
            "dataDir": self.directory / "data",
            "clientPortAddress": "127.0.0.1",
            "clientPort": self.port,
            "tickTime": TICK_MS,
            "initLimit": 20,
            "syncLimit": 10,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            **{f"server.{number}": address for number, address in members.items()},
        }

    def _answers(self) -> bool:
        """A member answers so only once a majority of them runs."""
        return "Mode: " in self.ask("srvr")


class ZooKeeperEnsemble:
    """Servers that start and end together; each can be killed and started again by itself."""

    def __init__(self, directory: Path, size: int = 1, classpath: str | None = None) -> None:
        classpath = classpath or pyspark_classpath()
        numbers = range(1, size + 1)
        addresses = {number: f"127.0.0.1:{free_port()}:{free_port()}" for number in numbers}
        members = addresses if size > 1 else {}
        self.servers = [ZooKeeperServer(directory / f"zookeeper-{one}", classpath, one, members) for one in numbers]

    @property
    def connect(self) -> str:
        """What a client needs to find it: the address of every server."""
        return ",".join(server.connect for server in self.servers)

    @property
    def leader(self) -> ZooKeeperServer:
        (leader,) = (server for server in self.servers if server.is_leader)
        return leader

    def start(self) -> None:
        """Start those that do not run, and wait until all of them answer."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        for server in self.servers:
            if not server.is_running:
                server.launch()

    def wait_until_ready(self) -> None:
        for server in self.servers:
            server.wait_until_ready()

    def stop(self) -> None:
        for server in self.servers:
            server.stop()

    def kill(self) -> None:
        for server in self.servers:
            server.kill()

    def make_chroot(self, name: str) -> str:
        """An empty place below which a test has ZooKeeper to itself: what a client needs to find it there."""
        client = KazooClient(self.connect)
        client.start(30)
        try:
            client.create(f"/{name}")
        finally:
            client.stop()
            client.close()
        return f"{self.connect}/{name}"
