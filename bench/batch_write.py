"""The driver's memory while a batch DataFrame is written in one transaction: it must not grow with the records.

python -m bench.batch_write [RECORDS ...]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from bench.measure import Side
from bench.nodes import Topics, new_node
from oncelog.spark import build_session, write_exactly_once

RECORDS = (1_000_000, 10_000_000)
VALUE = "concat(lpad(id, 12, '0'), repeat('x', 88)) value"
TASKS = 16
PARTITIONS = 3
DRIVER_MEMORY = "1g"
FORMAT = "format"
WAYS = ("shared-producer", "driver-pump", FORMAT)
RESULT = "RESULT "
SAMPLE_SECONDS = 0.1
MEBIBYTE = 2**20


class Peaks:
    """The most that the driver's processes hold: Python's, Java's, and Java's own live objects after a collection."""

    def __init__(self, spark: Any) -> None:
        self.python_mib = self.jvm_mib = self.live_heap_mib = self.committer_mib = 0.0
        self._jvm: Any = spark.sparkContext._jvm
        self._process = psutil.Process()
        self._java = next(child for child in self._process.children(recursive=True) if "java" in child.name())
        self._is_over = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[None]:
        thread = threading.Thread(target=self._watch)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()
            self._jvm.java.lang.System.gc()
            self._look_at_heap()

    def _watch(self) -> None:
        while not self._is_over.wait(SAMPLE_SECONDS):
            self.python_mib = max(self.python_mib, self._process.memory_info().rss / MEBIBYTE)
            self.jvm_mib = max(self.jvm_mib, self._java.memory_info().rss / MEBIBYTE)
            for worker in self._java.children(recursive=True):
                with suppress(psutil.Error):
                    self.committer_mib = max(self.committer_mib, worker.memory_info().rss / MEBIBYTE)
            self._look_at_heap()

    def _look_at_heap(self) -> None:
        pools = self._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
        used = [pool.getCollectionUsage() for pool in pools if str(pool.getType().toString()).startswith("Heap")]
        live = sum(usage.getUsed() for usage in used if usage is not None)
        self.live_heap_mib = max(self.live_heap_mib, live / MEBIBYTE)


def write(way: str, servers: str, topic: str, records: int) -> dict[str, float]:
    spark = build_session(app_name="batch-write", master="local[2]", settings={"spark.driver.memory": DRIVER_MEMORY})
    spark.sparkContext.setLogLevel("ERROR")
    rows = spark.range(0, records, 1, TASKS).selectExpr("cast(id as string) key", VALUE)
    peaks = Peaks(spark)
    started = time.monotonic()
    with peaks.watched():
        if way == FORMAT:
            options = {"kafka.bootstrap.servers": servers, "topic": topic}
            rows.write.format("oncelog").options(**options).mode("append").save()
        else:
            write_exactly_once(rows, topic=topic, bootstrap_servers=servers, mode=way)
    seconds = time.monotonic() - started
    spark.stop()
    return {
        "seconds": round(seconds, 1),
        "Python of the driver, MiB": round(peaks.python_mib),
        "largest Python worker, MiB": round(peaks.committer_mib),
        "Java resident, MiB": round(peaks.jvm_mib),
        "Java live heap, MiB": round(peaks.live_heap_mib),
    }


def measure(way: str, records: int) -> dict[str, float]:
    """One write, in a driver and to a broker of its own."""
    with tempfile.TemporaryDirectory() as directory:
        node = new_node(Side.OURS, Path(directory) / "node")
        node.start()
        try:
            topic = Topics(node.bootstrap_servers).create(f"batch-{uuid.uuid4().hex[:8]}", PARTITIONS)
            command = [sys.executable, "-m", "bench.batch_write", way, node.bootstrap_servers, topic, str(records)]
            output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        finally:
            node.kill()
    line = next(line for line in output.splitlines() if line.startswith(RESULT))
    found: dict[str, float] = json.loads(line.removeprefix(RESULT))
    return found


def main() -> None:
    arguments = sys.argv[1:]
    if arguments and arguments[0] in WAYS:
        way, servers, topic, records = arguments
        print(RESULT + json.dumps(write(way, servers, topic, int(records))), flush=True)
        return
    for way in WAYS:
        for records in [int(text) for text in arguments] or RECORDS:
            found = measure(way, records)
            told = ", ".join(f"{name}: {value:g}" for name, value in found.items())
            print(f"{way}, {records} records: {told}", flush=True)


if __name__ == "__main__":
    main()
