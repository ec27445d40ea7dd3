"""How soon a broker that was killed serves again: a long history of transactions, or very many partitions.

python -m bench.restart [--partitions 1000] [--megabytes 5000] [--transactions 1000000] [--ids 10000] [--keep DIRECTORY]
python -m bench.restart --partitions 10000 --megabytes 0 --transactions 0

A history is written by `bench.history`, which is killed; about 2,000 transactions a second. `--keep` names a directory for it, and
one that has a history already is used again. Each start is on a copy.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from bench.history import TOPIC, WRITTEN, Extent
from bench.measure import Measure, Side, at_most
from bench.program import Program, main
from bench.start import seconds_to_first_answer
from bench.usage import cpu_seconds, resident_bytes
from harness.oncelog_process import OncelogNode
from oncelog.client import Client, Producer, TopicPartition

EXTENT = Extent(partitions=1000, megabytes=5000, transactions=1_000_000, ids=10_000)
QUICK = Extent(partitions=100, megabytes=50, transactions=2000, ids=200)
COORDINATOR_TOPICS = ("__consumer_offsets", "__transaction_state")
STOP_SECONDS_MAX = 120
SETTLE_SECONDS = 2.0
FIRST, ALL, CPU = "after kill -9: first answer", "every partition answers", "CPU until then"
COORDINATORS, CLEAN_COORDINATORS = "a transaction begins", "a transaction begins, after it"
STOPPED, CLEAN_FIRST, CLEAN_ALL = "clean stop", "after it: first answer", "every partition answers, after it"
MEMORY, FILES, DISK = "resident memory", "open files", "both coordinator topics on disk"


class RestartProgram(Program):
    name = "restart"
    title = "Start after kill -9"
    peer = None
    extent: ClassVar[Extent | None] = None
    kept: ClassVar[Path | None] = None
    measures = (
        Measure(FIRST, "s", at_most(2)),
        Measure(ALL, "s", at_most(10)),
        Measure(COORDINATORS, "s"),
        Measure(CPU, "CPU s"),
        Measure(MEMORY, "MB"),
        Measure(FILES, "files"),
        Measure(DISK, "MB"),
        Measure(STOPPED, "s"),
        Measure(CLEAN_FIRST, "s"),
        Measure(CLEAN_ALL, "s"),
        Measure(CLEAN_COORDINATORS, "s"),
    )

    def open(self, side: Side) -> None:
        self._extent = QUICK if self.effort.is_quick else self.extent or EXTENT
        self._history = self.kept or self.scratch / "history"
        if not self._history.exists():
            make_history(self._history, self._extent)
        extent = self._extent
        self.notes = (
            f"{extent.megabytes:,} MB in {extent.partitions:,} partitions",
            f"{extent.transactions:,} transactions of {extent.ids:,} ids",
        )

    def run(self, side: Side) -> Mapping[str, float]:
        node = OncelogNode(self.scratch / "node")
        shutil.copytree(self._history, node.data_directory)
        try:
            found = {}
            found[FIRST], found[ALL], found[COORDINATORS], found[CPU] = self._start(node)
            time.sleep(SETTLE_SECONDS)
            found[MEMORY] = resident_bytes(node.pid) / 1e6
            found[FILES] = len(os.listdir(f"/proc/{node.pid}/fd"))
            found[DISK] = sum(map(size_bytes, coordinator_logs(node.data_directory))) / 1e6
            began = time.perf_counter()
            node.stop(STOP_SECONDS_MAX)
            found[STOPPED] = time.perf_counter() - began
            found[CLEAN_FIRST], found[CLEAN_ALL], found[CLEAN_COORDINATORS], _ = self._start(node)
            return found
        finally:
            node.kill()
            shutil.rmtree(node.directory)

    def _start(self, node: OncelogNode) -> tuple[float, float, float, float]:
        """Seconds to the first answer, until the end of every partition is told, and until a transactional id is served; and the
        processor time until then.
        """
        first_s = seconds_to_first_answer(node)
        began = time.perf_counter() - first_s
        with Client(node.bootstrap_servers) as client:
            client.end_offsets([TopicPartition(TOPIC, number) for number in range(self._extent.partitions)])
        every_s = time.perf_counter() - began
        with Producer(node.bootstrap_servers, transactional_id="restart") as producer:
            producer.init_transactions()
        return first_s, every_s, time.perf_counter() - began, cpu_seconds(node.pid)


def make_history(directory: Path, extent: Extent) -> None:
    """Have a history written, and kill who wrote it."""
    command = [sys.executable, "-m", "bench.history", str(directory), *extent.arguments()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            print(line, end="", file=sys.stderr)
            if line.strip() == WRITTEN:
                break
        else:
            raise RuntimeError("no history was written")
        writer.kill()


def coordinator_logs(directory: Path) -> Iterator[Path]:
    for topic in COORDINATOR_TOPICS:
        yield from directory.glob(f"{topic}-*")


def size_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.iterdir())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    for name in Extent.__slots__:
        parser.add_argument(f"--{name}", type=int, default=getattr(EXTENT, name))
    parser.add_argument("--keep", type=Path)
    chosen, rest = parser.parse_known_args()
    RestartProgram.kept = chosen.keep
    RestartProgram.extent = Extent(**{name: getattr(chosen, name) for name in Extent.__slots__})
    main([RestartProgram], rest)
