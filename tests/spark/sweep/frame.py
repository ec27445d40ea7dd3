"""The frame of both programs: a session whose checkpoint is watched, a small broker, and the way back to a point."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness import requirements
from harness.kafka import KafkaNode
from harness.oncelog_process import OncelogNode
from harness.processes import BrokerProcess
from oncelog.client import Client
from oncelog.spark import build_session
from tests.spark import topics
from tests.spark.sweep.recorder import Point, copy

SOURCE = Path(__file__).parent / "java" / "WatchedFileSystem.java"
TARGET = "out"
REFUSED = "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY"
ID = "sweep"
SECONDS_MAX = 600
NODES = {"oncelog": OncelogNode, "apache": KafkaNode}
SMALL = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.index.size.max.bytes": "65536",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "300",
}
"""A broker that starts again hundreds of times has few files to look at, and Kafka's controller does not wait for long until
it believes that the one before is dead."""

Records = Counter[tuple[str, str]]
"""Key and value, and how often."""


def _wait_for_markers(node: BrokerProcess) -> None:
    """It is the driver that dies. A Kafka that died with it, before it has written markers, may lose them (KAFKA-20734)."""
    with Client(node.bootstrap_servers) as client:
        while client.list_transactions(states=("PrepareCommit", "PrepareAbort")):
            time.sleep(0.002)


SETTLE: dict[str, Callable[[BrokerProcess], None]] = {"oncelog": lambda _: None, "apache": _wait_for_markers}


def records_of(node: BrokerProcess, isolation: str = "read_committed") -> Records:
    read = topics.read(node.bootstrap_servers, TARGET, isolation)
    return Counter(record for records in read.values() for record in records)


def watched_session(directory: Path, port: int) -> Any:
    import pyspark

    classes = directory / "classes"
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    subprocess.run([requirements.javac(), "-nowarn", "-cp", str(jars), "-d", str(classes), str(SOURCE)], check=True)
    session = build_session(
        app_name="sweep",
        master="local[2]",
        settings={
            "spark.driver.extraClassPath": str(classes),
            "spark.hadoop.fs.watched.impl": "WatchedFileSystem",
            "spark.hadoop.fs.watched.port": str(port),
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
        },
    )
    session.sparkContext.setLogLevel("FATAL")
    return session


def put_back(node: BrokerProcess, checkpoint: Path, point: Point) -> None:
    """The broker and the checkpoint are as they were at a point; the broker is not started."""
    node.kill()
    for now, then in ((checkpoint, point.checkpoint), (node.data_directory, point.data)):
        shutil.rmtree(now, ignore_errors=True)
        copy(then, now)


def difference(expected: Records, found: Records) -> str | None:
    lost, added = expected - found, found - expected
    return f"lost {dict(lost)}, too many {dict(added)}" if lost or added else None


def arguments(things: str, thing: str) -> argparse.ArgumentParser:
    """The options of both programs: of which things to run how many, from how many points."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--broker", choices=NODES, required=True)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--only", action="append", metavar=thing)
    parser.add_argument(f"--{things}", type=int, dest="count")
    parser.add_argument("--points", type=int)
    parser.add_argument("--seed", type=int, default=1)
    return parser


def run_all(sweep: Any, things: Iterable[Any], asked: argparse.Namespace) -> None:
    """Run what was asked for; print one line of JSON for each."""
    choice = random.Random(asked.seed)
    chosen = [thing for thing in things if asked.only is None or thing.name in asked.only]
    chosen = chosen if asked.count is None else choice.sample(chosen, asked.count)
    try:
        for thing in chosen:
            print(json.dumps(asdict(sweep.run(thing, asked.points, choice))), flush=True)
    finally:
        sweep.close()
