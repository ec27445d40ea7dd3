"""Apache Kafka's own command line tools, all in one Java process: each start of one takes seconds."""

from __future__ import annotations

import base64
import subprocess
from dataclasses import dataclass

from harness import java_programs

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
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
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

    def run(self, tool: str, *arguments: str, stdin: str = "") -> Ended:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        given = base64.b64encode(stdin.encode()).decode()
        self._process.stdin.write("\t".join((given, TOOLS[tool], *arguments)) + "\n")
        self._process.stdin.flush()
        status, _, said = self._process.stdout.readline().partition("\t")
        assert status, f"the process ended in {tool} {' '.join(arguments)}"
        return _ended(int(status), base64.b64decode(said).decode())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def _ended(status: int, said: str) -> Ended:
    return Ended(status, [line for line in said.splitlines() if line and not line.startswith(NOISE)])


class KafkaTools:
    """The tools against one cluster: tools("kafka-topics", "--list")."""

    def __init__(self, process: ToolProcess, bootstrap_servers: str) -> None:
        self._process = process
        self.bootstrap_servers = bootstrap_servers

    def __call__(self, tool: str, *arguments: str, stdin: str = "") -> Ended:
        server = ("--bootstrap-server", self.bootstrap_servers)
        words = (*server, *arguments) if tool in SERVER_FIRST else (*arguments, *server)
        return self._process.run(tool, *words, stdin=stdin)

    def alone(self, tool: str, *arguments: str) -> Ended:
        """Run a tool in a JVM of its own: for one that says what it has to say when that ends."""
        command = java_programs.command(TOOLS[tool], *arguments, "--bootstrap-server", self.bootstrap_servers)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        return _ended(done.returncode, done.stdout)
