"""Helpers of the examples: programs in processes of their own, and what is in a topic afterwards."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from oncelog.client import Consumer, TopicPartition


def run_twice(program: Path, *arguments: str, crash_after: int) -> int:
    """Run a program that kills itself on the way, and then once more without that. How often it was killed."""
    killed = _run(program, *arguments, "--crash-after", str(crash_after)) == -signal.SIGKILL
    _run(program, *arguments)
    return int(killed)


def _run(program: Path, *arguments: str) -> int:
    """The exit status. Whatever is neither 0 nor a kill is an error of the program, and ends this one."""
    status = subprocess.run([sys.executable, str(program), *arguments], check=False).returncode
    if status not in (0, -signal.SIGKILL):
        sys.exit(f"{program.name} failed with exit status {status}")
    return status


def committed(address: str, topic: str) -> list[bytes | None]:
    """The values that a reader of committed records finds in partition 0, in their order."""
    partition = TopicPartition(topic, 0)
    values: list[bytes | None] = []
    with Consumer(address) as consumer:
        consumer.assign({partition: 0})
        while consumer.lag()[partition]:
            values += [record.value for record in consumer.poll()]
    return values
