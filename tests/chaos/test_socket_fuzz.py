"""Random and broken bytes on the broker's socket, while a well-behaved producer works at the side.

The broker never dies, never keeps the others waiting, closes no connection but the one that sent what is no request, and
does not grow. ONCELOG_SEED and ONCELOG_STEPS choose another run.
"""

from __future__ import annotations

import os
import random
import socket
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from harness.processes import BrokerProcess
from harness.shared_producer import Cluster
from harness.wire import Connection
from oncelog.client import OffsetAndMetadata, Producer, TopicPartition
from tests.chaos.fuzzed_frames import TOPICS, RandomFrames

SEED = int(os.environ.get("ONCELOG_SEED", "1"))
STEPS = int(os.environ.get("ONCELOG_STEPS", "1500"))
FUZZERS = 2
PARTITIONS = 2
GROUP = "the-good-one"
GROWTH_BYTES_MAX = 150 * 1024 * 1024
PATIENCE_SECONDS = 20.0


class Fuzzer:
    """Opens connections and sends what it is given, in every way a socket allows."""

    def __init__(self, node: BrokerProcess, frames: RandomFrames) -> None:
        self._address = ("127.0.0.1", node.port)
        self._frames = frames
        self._chance = random.Random(frames.chance.random())
        self._ways = (self._say_all_and_listen,) * 6 + (
            self._leave_at_once,
            self._say_half,
            self._drip,
            self._never_read,
        )
        self.used: Counter[str] = Counter()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            way = self._chance.choice(self._ways)
            self.used[way.__name__] += 1
            with socket.create_connection(self._address, timeout=PATIENCE_SECONDS) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                # Whatever the broker makes of it, it may close this connection at any moment.
                with suppress(ConnectionError):
                    way(connection)

    def _say_all_and_listen(self, connection: socket.socket) -> None:
        """Requests in one go, then half a close, then every answer there is."""
        connection.sendall(b"".join(self._frames.frame() for _ in range(self._chance.randint(1, 4))))
        self._hear_the_rest(connection)

    def _hear_the_rest(self, connection: socket.socket) -> None:
        with suppress(OSError):  # closed by the broker already
            connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass

    def _leave_at_once(self, connection: socket.socket) -> None:
        connection.sendall(b"".join(self._frames.frame() for _ in range(self._chance.randint(1, 4))))

    def _say_half(self, connection: socket.socket) -> None:
        frame = self._frames.frame()
        connection.sendall(frame[: self._chance.randint(0, len(frame))])
        self._hear_the_rest(connection)

    def _drip(self, connection: socket.socket) -> None:
        """A byte at a time."""
        for byte in self._frames.frame()[:200]:
            connection.send(bytes((byte,)))

    def _never_read(self, connection: socket.socket) -> None:
        """More answers than the sockets' buffers hold, and nobody who takes them."""
        connection.settimeout(0.02)
        with suppress(TimeoutError):
            for _ in range(200):
                connection.sendall(self._frames.frame())


class GoodProducer:
    """Transactions one after the other, over connections that must stay open, each within the time it has."""

    def __init__(self, node: BrokerProcess, topic: str) -> None:
        self._producer = Producer(
            node.bootstrap_servers,
            transactional_id="good",
            request_timeout_ms=PATIENCE_SECONDS * 1000,
            call_timeout_ms=PATIENCE_SECONDS * 1000,
        )
        self._watched = Connection(node.bootstrap_servers, PATIENCE_SECONDS)
        self._topic = topic
        self.committed: list[str] = []
        self.last_offset = -1

    def run(self, stop: threading.Event) -> None:
        self._producer.init_transactions()
        number = 0
        while not stop.is_set():
            number += 1
            self._producer.begin_transaction()
            values = [f"{number}-{partition}" for partition in range(PARTITIONS)]
            for partition, value in enumerate(values):
                self._producer.send(self._topic, value.encode(), partition=partition)
            if number % 5 == 0:
                self._producer.abort_transaction()
            else:
                offsets = {TopicPartition(self._topic, 0): OffsetAndMetadata(number)}
                self._producer.send_offsets_to_transaction(offsets, GROUP)
                self._producer.commit_transaction()
                self.committed += values
                self.last_offset = number
            assert self._watched.ask("find_coordinator", 4, key_type=0, coordinator_keys=[GROUP]).coordinators
        self._producer.close()


class Watched(threading.Thread):
    """A thread whose error is raised where it is joined."""

    def __init__(self, work: object, *arguments: object) -> None:
        super().__init__(daemon=True)
        self._work, self._arguments, self._error = work, arguments, None
        self.start()

    def run(self) -> None:
        try:
            self._work(*self._arguments)
        except Exception as error:  # noqa: BLE001 - it is raised again where it is waited for
            self._error = error

    def finish(self) -> None:
        self.join()
        if self._error is not None:
            raise self._error


def resident_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_broken_bytes_harm_nobody_but_their_sender(new_oncelog, summary):
    # A JoinGroup waits for every member, and these do not come back: their sessions must end before patience does.
    node: BrokerProcess = new_oncelog(group_min_session_timeout_ms="0", group_max_session_timeout_ms="1000")
    cluster = Cluster(node)
    topic = cluster.create_topic(PARTITIONS)
    topic_ids = [made.topic_id for made in create(cluster, TOPICS)]
    good, stop = GoodProducer(node, topic), threading.Event()
    working = Watched(good.run, stop)
    fuzzers = [Fuzzer(node, RandomFrames(SEED * 100 + number, topic_ids)) for number in range(FUZZERS)]
    warm_up, rest = STEPS // 5, STEPS - STEPS // 5
    run_all(fuzzers, warm_up)
    size_bytes = resident_bytes(node.pid)
    run_all(fuzzers, rest)
    stop.set()
    working.finish()
    growth_bytes = resident_bytes(node.pid) - size_bytes
    assert node.is_running, node.tail()
    assert "Traceback" not in node.output.read_text()
    assert growth_bytes < GROWTH_BYTES_MAX
    node.kill()
    node.start()
    cluster = Cluster(node)
    assert sorted(value for _, _, value in cluster.read(topic, PARTITIONS)) == sorted(good.committed)
    assert cluster.fetch_offset(GROUP, topic, 0, stable=True)[1] == good.last_offset
    summary(
        f"seed {SEED}: {FUZZERS * STEPS} connections of broken bytes, {len(good.committed)} records committed at "
        f"the side, {growth_bytes / 1024 / 1024:.0f} MiB grown"
    )


def create(cluster: Cluster, names: tuple[str, ...]) -> list:
    wanted = [
        {"name": name, "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []} for name in names
    ]
    return list(cluster.connection.ask("create_topics", 7, topics=wanted, validate_only=False).topics)


def run_all(fuzzers: list[Fuzzer], steps: int) -> None:
    threads = [Watched(fuzzer.run, steps) for fuzzer in fuzzers]
    for thread in threads:
        thread.finish()
