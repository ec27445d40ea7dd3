"""Kafka's own `kafka-dump-log`, as the referee of files on disk."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from harness import jars, requirements


def dump(files: Iterable[Path], *options: str) -> str:
    """What the tool prints of the files; it must succeed."""
    command = [
        requirements.java(),
        "-XX:TieredStopAtLevel=1",
        "-cp",
        jars.classpath(),
        "org.apache.kafka.tools.DumpLogSegments",
        *options,
        "--files",
        ",".join(map(str, files)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
