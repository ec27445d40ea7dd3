"""Copiers copy a topic exactly once while they and the broker are killed with -9 and stopped, and connections cut, at random.

Every process writes a history. At the end the output equals the input, once each and in order per partition, for a reader
that was there all the time too, and the checker of histories finds no fault. ONCELOG_SEED chooses another run, and
ONCELOG_CHAOS_SECONDS a longer one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from harness.processes import BrokerProcess
from harness.recorded_clients import ConfluentReader, ConfluentRecorded, Place, key_of
from harness.shared_producer import Cluster, until
from oncelog.testing.checker import Anomaly, HistoryWriter, check, read_history
from oncelog.testing.proxy import Proxy
from tests.chaos.copier import COPIERS, SEPARATOR

SEED = int(os.environ.get("ONCELOG_SEED", "1"))
SECONDS = float(os.environ.get("ONCELOG_CHAOS_SECONDS", "8"))
PARTITIONS = 3
RECORDS_PER_TRANSACTION = 300
SETTINGS = {"group_min_session_timeout_ms": "1000", "group_initial_rebalance_delay_ms": "0"}


class CopierProcess:
    """One copier by name; each of its lives is a process with a history of its own."""

    def __init__(self, name: str, client: str, arguments: tuple[str, str, str], directory: Path) -> None:
        self.name, self.lives = name, 0
        self._client, self._directory = client, directory
        self._bootstrap, self._source, self._target = arguments
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it if it does not run."""
        if self._process is not None and self._process.poll() is None:
            return
        self.lives += 1
        path = self._directory / f"{self.name}.{self.lives}.jsonl"
        where = [self._bootstrap, self.name, self._source, self._target, str(path), str(self.lives)]
        with open(self._directory / f"{self.name}.txt", "ab") as output:
            command = [sys.executable, "-m", "tests.chaos.copier", self._client, *where]
            self._process = subprocess.Popen(command, stdout=output, stderr=output)

    def signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()


class Following:
    """Reads the output all the time, in a thread, as a read_committed reader."""

    def __init__(self, bootstrap: str, places: list[Place], history: HistoryWriter) -> None:
        self.values: dict[str, list[str]] = defaultdict(list)
        self._stop = threading.Event()
        self._process = history.process("follower")
        self._reader = ConfluentReader(bootstrap, places, self._process, "read_committed")
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def count(self) -> int:
        return sum(map(len, list(self.values.values())))

    def gets_on(self, end: int) -> Callable[[], bool]:
        """Whether it has read more than now, or everything."""
        before = self.count()
        return lambda: self.count() > before or self.count() == end

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _read(self) -> None:
        while not self._stop.is_set():
            read_into(self.values, self._reader, self._process)
        self._reader.close()


def read_into(values: dict[str, list[str]], reader: ConfluentReader, process) -> None:
    with process.operation() as operation:
        records = reader.poll(0.2)
        operation.polled(records)
        operation.ok()
    for key, _, value in records:
        values[key].append(value.split(SEPARATOR)[0])


class CopierChaos:
    """The broker, the copiers, the proxy between them, and what is done to them."""

    def __init__(self, node: BrokerProcess, proxy: Proxy, copiers: list[CopierProcess], chance: Random) -> None:
        self._node, self._proxy, self._copiers, self._chance = node, proxy, copiers, chance
        self._due: list[Callable[[], None]] = []
        self._stopped: dict[CopierProcess, float] = {}
        self.done: Counter[str] = Counter()

    def one(self) -> None:
        """One event. Each kind comes before one of them comes again."""
        if not self._due:
            self._due = [
                self._kill_broker,
                self._stop_broker,
                self._cut_connections,
                self._kill_copier,
                self._kill_copier,
                self._stop_copier,
            ]
            self._chance.shuffle(self._due)
        self._due.pop()()

    def look_after(self) -> None:
        """Copiers that ended are started again, and those that were stopped for long enough go on."""
        for copier, until_time in list(self._stopped.items()):
            if time.monotonic() > until_time:
                self._go_on(copier)
        for copier in self._copiers:
            copier.start()

    def end(self) -> None:
        for copier in list(self._stopped):
            self._go_on(copier)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        def look() -> bool:
            self.look_after()
            return holds()

        until(look, timeout_seconds=60, pause_seconds=0.02)

    def _kill_broker(self) -> None:
        self.done["broker killed"] += 1
        self._node.kill()
        self._node.start()

    def _stop_broker(self) -> None:
        """For less than a copier's session, or for longer."""
        self.done["broker stopped"] += 1
        self._node.send_signal(signal.SIGSTOP)
        time.sleep(self._chance.choice((0.3, 4.0)))
        self._node.send_signal(signal.SIGCONT)

    def _cut_connections(self) -> None:
        """All of them, several times: some while they are made again."""
        self.done["connections cut"] += 1
        for _ in range(3):
            self._proxy.cut_all()
            time.sleep(self._chance.uniform(0.0, 0.3))

    def _kill_copier(self) -> None:
        self.done["copier killed"] += 1
        copier = self._chance.choice(self._copiers)
        self._stopped.pop(copier, None)
        copier.kill()

    def _stop_copier(self) -> None:
        """For longer than its session, or for less."""
        self.done["copier stopped"] += 1
        copier = self._chance.choice(self._copiers)
        copier.signal(signal.SIGSTOP)
        self._stopped[copier] = time.monotonic() + self._chance.choice((0.5, 4.5))

    def _go_on(self, copier: CopierProcess) -> None:
        del self._stopped[copier]
        copier.signal(signal.SIGCONT)


class Feeder:
    """Writes the input in transactions, and knows what it is."""

    def __init__(self, bootstrap: str, topic: str, history: HistoryWriter) -> None:
        self.values: dict[int, list[str]] = {partition: [] for partition in range(PARTITIONS)}
        self._topic, self._history, self._bootstrap, self._lives = topic, history, bootstrap, 0

    def feed(self) -> None:
        """One transaction, of a producer of its own: the last one may have lost its broker."""
        self._lives += 1
        process = self._history.process(f"feeder.{self._lives}")
        producer = ConfluentRecorded(self._bootstrap, f"feeder-of-{self._topic}")
        with process.operation() as operation:
            producer.begin()
            for _ in range(RECORDS_PER_TRANSACTION):
                for partition, values in self.values.items():
                    values.append(f"{partition}:{len(values)}")
                    producer.send(operation, (self._topic, partition), values[-1])
            producer.commit()
            operation.ok()

    def count(self) -> int:
        return sum(map(len, self.values.values()))


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.timeout(120 + 5 * int(SECONDS))
def test_copiers_and_broker_are_killed_and_the_output_is_the_input(new_oncelog, tmp_path, summary):
    node, chance = new_oncelog(**SETTINGS), Random(SEED)
    cluster = Cluster(node)
    source, target = cluster.create_topic(PARTITIONS), cluster.create_topic(PARTITIONS)
    places = [(target, partition) for partition in range(PARTITIONS)]
    proxy = Proxy(node.bootstrap_servers)
    arguments = (proxy.bootstrap_servers, source, target)
    copiers = [
        CopierProcess(f"{client}-{number}", client, arguments, tmp_path) for client in COPIERS for number in range(2)
    ]
    own_path = tmp_path / "test.jsonl"
    with HistoryWriter(own_path) as history:
        feeder, follower = Feeder(node.bootstrap_servers, source, history), Following(arguments[0], places, history)
        chaos = CopierChaos(node, proxy, copiers, chance)
        try:
            feeder.feed()
            for copier in copiers:
                copier.start()
            until(lambda: follower.count() > 0, timeout_seconds=60)
            run_for(SECONDS, chaos, feeder, follower)
            chaos.end()
            chaos.wait_until(lambda: follower.count() >= feeder.count())
        finally:
            for copier in copiers:
                copier.kill()
        follower.stop()
        proxy.close()
        inputs = [(source, partition) for partition in range(PARTITIONS)]
        at_the_end = read_to_the_end(node, inputs + places, history)
    expected = {f"{target}-{partition}": values for partition, values in feeder.values.items()}
    assert {key: values for key, values in at_the_end.items() if key in expected} == expected
    assert dict(follower.values) == expected
    histories = [own_path, *sorted(path for path in tmp_path.glob("*.jsonl") if path != own_path)]
    report = check(read_history(histories))
    assert report.is_sound, f"seed {SEED}: {[one.sentence for one in report.examples if one.is_fault]}"
    assert (report.is_unseen_judged, report.found[Anomaly.UNKNOWN_WRITER]) == (True, 0)
    events = ", ".join(f"{count} times {what}" for what, count in chaos.done.items())
    lives = sum(copier.lives for copier in copiers)
    summary(
        f"seed {SEED}: {feeder.count()} records copied by {lives} processes, {report.operations} operations, {events}"
    )


def run_for(seconds: float, chaos: CopierChaos, feeder: Feeder, follower: Following) -> None:
    """An event, and more input, as often as the copiers get something through."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        chaos.one()
        feeder.feed()
        chaos.wait_until(follower.gets_on(feeder.count()))


def read_to_the_end(node: BrokerProcess, places: list[Place], history: HistoryWriter) -> dict[str, list[str]]:
    process = history.process("reader")
    process.final()
    reader = ConfluentReader(node.bootstrap_servers, places, process, "read_committed")
    values: dict[str, list[str]] = defaultdict(list)
    while reader.ended != {key_of(place) for place in places}:
        read_into(values, reader, process)
    reader.close()
    return dict(values)
