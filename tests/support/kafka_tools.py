"""Apache Kafka's own command line tools, each in a Java process of its own."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from tests.support import jars, requirements

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
}
# What a tool that lives for a second needs to start soon.
JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m")
NOISE = ("SLF4J:", "WARNING:")
TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Ended:
    status: int
    lines: list[str]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


class KafkaTools:
    """The tools against one cluster: tools("kafka-topics", "--list")."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._java = requirements.java()
        self._classpath = jars.classpath()

    def __call__(self, tool: str, *arguments: str) -> Ended:
        command = [
            *(self._java, *JAVA_OPTIONS, "-cp", self._classpath, TOOLS[tool]),
            *arguments,
            *("--bootstrap-server", self._bootstrap_servers),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line and not line.startswith(NOISE)]
        return Ended(done.returncode, lines)
