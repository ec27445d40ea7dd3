"""Apache Kafka's own command line tools, all in one Java process: each start of one takes seconds."""

from __future__ import annotations

import base64
import subprocess
from dataclasses import dataclass

from tests.support import java_programs

TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
}
SERVER_FIRST = ("kafka-features", "kafka-transactions")
"""Those that take the address before the name of what they are to do."""
NOISE = ("SLF4J:", "WARNING:")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a tool ended, and what it said on both of its outputs."""

    status: int
    lines: list[str]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


class ToolProcess:
    """The program Tools.java, in a JVM of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            java_programs.command("Tools"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self, tool: str, *arguments: str) -> Ended:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join((TOOLS[tool], *arguments)) + "\n")
        self._process.stdin.flush()
        status, _, said = self._process.stdout.readline().partition("\t")
        assert status, f"the process ended in {tool} {' '.join(arguments)}"
        lines = base64.b64decode(said).decode().splitlines()
        return Ended(int(status), [line for line in lines if line and not line.startswith(NOISE)])

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class KafkaTools:
    """The tools against one cluster: tools("kafka-topics", "--list")."""

    def __init__(self, process: ToolProcess, bootstrap_servers: str) -> None:
        self._process = process
        self._bootstrap_servers = bootstrap_servers

    def __call__(self, tool: str, *arguments: str) -> Ended:
        server = ("--bootstrap-server", self._bootstrap_servers)
        return self._process.run(tool, *((*server, *arguments) if tool in SERVER_FIRST else (*arguments, *server)))
