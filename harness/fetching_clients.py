"""Clients of one topic that fetch as much as they can: those that take nothing of it, and those that take all of it.

`python -m harness.fetching_clients PORT CLIENTS SIZE_BYTES PAUSE_S` has so many take answers of this size, one after the other
with a pause between, until its input ends. Then it prints what they saw.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from harness.wire import Connection, batch, frame, parse

TOPIC = "fetched"
BATCH_BYTES = 1_000_000
FETCH_VERSION = 11
TAKEN_AT_ONCE_BYTES = 1024 * 1024
PATIENCE_S = 60.0
LOOK_EVERY_S = 0.01
ALL_HAVE_READ = "all have read"
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Seen(NamedTuple):
    """What clients saw: answers, their bytes, connections that the broker closed, and how long answers took, in milliseconds."""

    answers: int
    size_bytes: int
    hung_up: int
    p50_ms: float
    p99_ms: float
    slowest_ms: float


def fetch_frame(size_bytes_max: int, *, topic: str = TOPIC, partition: int = 0, offset: int = 0) -> bytes:
    """A fetch without a session that does not wait, of one partition."""
    asked = {
        "partition": partition,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "log_start_offset": -1,
        "partition_max_bytes": size_bytes_max,
    }
    fields = {
        "replica_id": -1,
        "max_wait": timedelta(0),
        "min_bytes": 1,
        "max_bytes": size_bytes_max,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [asked]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    return frame("fetch", FETCH_VERSION, fields)


def fill(bootstrap_servers: str, batches: int, *, batch_bytes: int = BATCH_BYTES) -> None:
    """Make the topic, of one partition, with so many batches."""
    connection = Connection(bootstrap_servers)
    made = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    connection.ask("create_topics", 7, topics=[made], timeout=timedelta(seconds=30), validate_only=False)
    records = batch(-1, -1, -1, ["x" * (batch_bytes - 100)], attributes=0)
    fields = {
        "transactional_id": None,
        "acks": -1,
        "timeout": timedelta(seconds=30),
        "topic_data": [{"name": TOPIC, "partition_data": [{"index": 0, "records": records}]}],
    }
    request = frame("produce", 9, fields)
    for _ in range(batches):
        connection.socket.sendall(request)
        answer = parse("produce", 9, connection.receive_frame())
        assert answer.responses[0].partition_responses[0].error_code == 0, answer
    connection.close()


def unread_fetches(bootstrap_servers: str, clients: int, size_bytes_max: int) -> list[Connection]:
    """So many clients that ask once, and take nothing."""
    asking = []
    for _ in range(clients):
        connection = Connection(bootstrap_servers)
        connection.socket.sendall(fetch_frame(size_bytes_max))
        asking.append(connection)
    return asking


def start_taking(port: int, clients: int, size_bytes_max: int, pause_s: float = 0.0) -> subprocess.Popen[str]:
    """Begin to take answers, in a process of its own."""
    arguments = [str(port), str(clients), str(size_bytes_max), str(pause_s)]
    return subprocess.Popen(
        [sys.executable, "-m", __name__, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def until_all_have_read(taking: subprocess.Popen[str]) -> None:
    """Wait until each of them has had an answer."""
    assert taking.stdout is not None
    assert taking.stdout.readline().strip() == ALL_HAVE_READ


def stop_taking(taking: subprocess.Popen[str]) -> Seen:
    """What they saw. Whoever has waited until all have read has taken that line of theirs."""
    said, _ = taking.communicate()
    assert taking.returncode == 0, said
    answers, size_bytes, hung_up, *waits_ms = said.removeprefix(ALL_HAVE_READ).split()
    return Seen(int(answers), int(size_bytes), int(hung_up), *map(float, waits_ms))


class Taking(threading.Thread):
    """One client: asks, takes what comes, asks again. It connects again where the broker has hung up."""

    def __init__(self, port: int, size_bytes_max: int, pause_s: float, over: threading.Event) -> None:
        super().__init__(daemon=True)
        self._address = ("127.0.0.1", port)
        self._request = fetch_frame(size_bytes_max)
        self._pause_s = pause_s
        self._over = over
        self._room = memoryview(bytearray(TAKEN_AT_ONCE_BYTES))
        self.waits_ms: list[float] = []
        self.size_bytes = 0
        self.hung_up = 0

    def run(self) -> None:
        while not self._over.is_set():
            with socket.create_connection(self._address, timeout=PATIENCE_S) as connection:
                try:
                    while not self._over.is_set():
                        self._take_one(connection)
                        self._over.wait(self._pause_s)
                except ConnectionError:
                    self.hung_up += 1

    def _take_one(self, connection: socket.socket) -> None:
        began_s = time.monotonic()
        connection.sendall(self._request)
        self._take(connection, 4)
        (size_bytes,) = struct.unpack_from(">i", self._room)
        left_bytes = size_bytes
        while left_bytes:
            part_bytes = min(left_bytes, TAKEN_AT_ONCE_BYTES)
            self._take(connection, part_bytes)
            left_bytes -= part_bytes
        self.waits_ms.append((time.monotonic() - began_s) * 1000)
        self.size_bytes += size_bytes

    def _take(self, connection: socket.socket, size_bytes: int) -> None:
        filled = 0
        while filled < size_bytes:
            taken = connection.recv_into(self._room[filled:size_bytes])
            if not taken:
                raise ConnectionError("the broker hung up")
            filled += taken


def take_until_told_to_stop(port: int, clients: int, size_bytes_max: int, pause_s: float) -> Seen:
    over = threading.Event()
    taking = [Taking(port, size_bytes_max, pause_s, over) for _ in range(clients)]
    for one in taking:
        one.start()
    with selectors.DefaultSelector() as ends:
        ends.register(sys.stdin, selectors.EVENT_READ)
        while not ends.select(LOOK_EVERY_S) and not all(one.waits_ms for one in taking):
            pass
        print(ALL_HAVE_READ, flush=True)
        ends.select()
    over.set()
    for one in taking:
        one.join()
    waits_ms = sorted(wait_ms for one in taking for wait_ms in one.waits_ms)

    def quantile(share: float) -> float:
        return waits_ms[min(len(waits_ms) - 1, int(share * len(waits_ms)))] if waits_ms else float("inf")

    return Seen(
        len(waits_ms),
        sum(one.size_bytes for one in taking),
        sum(one.hung_up for one in taking),
        quantile(0.5),
        quantile(0.99),
        quantile(1.0),
    )


class PeakMemory(threading.Thread):
    """Looks at the resident memory of a process until `stop`, which says how much it was at most."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._statm = Path(f"/proc/{pid}/statm")
        self._over = threading.Event()
        self._most_bytes = 0
        self.start()

    def run(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            self._most_bytes = max(self._most_bytes, int(self._statm.read_text().split()[1]) * PAGE_BYTES)

    def stop(self) -> int:
        self._over.set()
        self.join()
        return self._most_bytes


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        print(*take_until_told_to_stop(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
