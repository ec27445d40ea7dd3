"""Kafka's Java clients as loads: its own ProducerPerformance, and a consumer that needs no group."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from harness import jars, requirements

JVM_SETTINGS = ("-Xmx512m", "-Dlog4j2.level=ERROR")
TIMEOUT_SECONDS = 300
PRODUCER_SETTINGS = {
    "acks": "all",
    "enable.idempotence": "true",
    "linger.ms": "5",
    "batch.size": "131072",
    "buffer.memory": "67108864",
}
SUMMARY = re.compile(r"(\d+) records sent, ([\d.]+) records/sec .* (\d+) ms 50th, .* (\d+) ms 99th")


class LoadError(Exception):
    """A client did not do what it was to do."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """What a load saw."""

    records: int
    records_per_second: float


def produce(
    bootstrap_servers: str,
    topic: str,
    *,
    records: int,
    record_bytes: int,
    payloads: Path | None = None,
    transaction_ms: int | None = None,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Throughput:
    """Send records with acks=all, in transactions of so many ms or, without that, only idempotent. Raises LoadError.

    Values have `record_bytes` each, or are drawn from the lines of the file `payloads`.
    `settings` are those of the Java client, and beat the ones that all loads have.
    """
    properties = {"bootstrap.servers": bootstrap_servers, **PRODUCER_SETTINGS, **settings}
    values = ("--record-size", str(record_bytes)) if payloads is None else ("--payload-file", str(payloads))
    command = [
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(records), *values, "--throughput", "-1"),
        *("--producer-props", *(f"{name}={value}" for name, value in properties.items())),
    ]
    if transaction_ms is not None:
        command += ["--transactional-id", f"bench-{topic}", "--transaction-duration-ms", str(transaction_ms)]
    printed = _run_java(command, jars.classpath())
    summaries = SUMMARY.findall(printed)
    if not summaries or int(summaries[-1][0]) != records:
        raise LoadError(f"ProducerPerformance did not send {records} records: {printed[-500:]}")
    return Throughput(records, float(summaries[-1][1]))


class AssignedConsumer:
    """The program java/AssignedConsumer.java, compiled once."""

    def __init__(self, scratch: Path) -> None:
        source = Path(__file__).parent / "java" / "AssignedConsumer.java"
        compiler = [requirements.javac(), "-nowarn", "-cp", jars.classpath(), "-d", str(scratch), str(source)]
        subprocess.run(compiler, check=True, timeout=TIMEOUT_SECONDS)
        self._classpath = f"{scratch}:{jars.classpath()}"

    def consume(
        self, bootstrap_servers: str, topic: str, *, records: int, isolation_level: str = "read_uncommitted"
    ) -> Throughput:
        """Read so many records from the topic's beginning. Raises LoadError."""
        printed = _run_java(
            ["AssignedConsumer", bootstrap_servers, topic, str(records), isolation_level], self._classpath
        )
        count, _, seconds = printed.split()
        return Throughput(int(count), int(count) / float(seconds))


def _run_java(command: list[str], classpath: str) -> str:
    done = subprocess.run(
        [requirements.java(), *JVM_SETTINGS, "-cp", classpath, *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )
    if done.returncode:
        raise LoadError(f"{command[0]}: {(done.stdout + done.stderr)[-500:]}")
    return done.stdout
