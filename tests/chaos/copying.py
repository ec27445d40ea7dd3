"""The copy of a topic under attack: who feeds it, who copies, who follows the output, and what has to be so at the end.

Every process writes a history. The output equals the input, once each and in order per partition, for a reader that was there
all the time too, and the checker of histories finds no fault.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from harness.recorded_clients import (
    ConfluentReader,
    ConfluentRecorded,
    OwnRecorded,
    Place,
    RecordedProducer,
    key_of,
)
from harness.waiting import until
from oncelog.testing.checker import Anomaly, CheckReport, HistoryWriter, ProcessRecorder, check, read_history
from tests.chaos.copier import COPIERS, SEPARATOR
from tests.cluster.processes.load import read_all

FEEDERS: dict[str, Callable[[str, str, float], RecordedProducer]] = {
    "confluent-kafka": ConfluentRecorded,
    "oncelog": OwnRecorded,
}
COPIERS_PER_CLIENT = 2
STUCK_AFTER = {"confluent-kafka": 2, "oncelog": 6}
"""In a client's patience: it has said nothing of what it does for so long. A transaction has several calls."""
ENDLESS_CALLS = ("confluent-kafka",)
"""librdkafka 2.16 may wait in send_offsets_to_transaction without end, and ask nobody, once the group's coordinator has moved. It
stays in its group meanwhile, where all others wait for it."""


@dataclass(frozen=True, slots=True)
class Copying:
    """What is copied, and where to. No call of a client takes longer than its patience lasts."""

    bootstrap: str
    source: str
    target: str
    partitions: int
    patience_seconds: float = 30.0

    @property
    def inputs(self) -> list[Place]:
        return [(self.source, partition) for partition in range(self.partitions)]

    @property
    def outputs(self) -> list[Place]:
        return [(self.target, partition) for partition in range(self.partitions)]


class CopierProcess:
    """One copier by name; each of its lives is a process with a history of its own."""

    def __init__(self, name: str, client: str, copying: Copying, directory: Path) -> None:
        self.name, self.lives = name, 0
        self._client, self._copying, self._directory = client, copying, directory
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it if it does not run."""
        if self._process is not None and self._process.poll() is None:
            return
        self.lives += 1
        path, copying = self._history, self._copying
        where = [copying.bootstrap, self.name, copying.source, copying.target, str(path), str(self.lives)]
        command = [sys.executable, "-m", "tests.chaos.copier", self._client, *where, str(copying.patience_seconds)]
        with open(self._directory / f"{self.name}.txt", "ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)

    @property
    def _history(self) -> Path:
        return self._directory / f"{self.name}.{self.lives}.jsonl"

    def end_if_stuck(self) -> None:
        """While it does not say what it does, it is in a call. No call of our client takes so long."""
        if not self._history.exists():
            return
        silent_seconds = time.time() - self._history.stat().st_mtime
        if silent_seconds > STUCK_AFTER[self._client] * self._copying.patience_seconds:
            assert self._client in ENDLESS_CALLS, f"{self.name} has done nothing for {silent_seconds:.0f} s"
            self.kill()

    def signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()


class Copiers:
    """Some of each client, in one group. They are killed and stopped, and go on."""

    def __init__(self, copying: Copying, directory: Path, chance: Random) -> None:
        self._all = [
            CopierProcess(f"{client}-{number}", client, copying, directory)
            for client in COPIERS
            for number in range(COPIERS_PER_CLIENT)
        ]
        self._chance = chance
        self._stopped: dict[CopierProcess, float] = {}

    @property
    def lives(self) -> int:
        return sum(copier.lives for copier in self._all)

    def look_after(self) -> None:
        """Copiers that ended are started again, and those that were stopped for long enough go on."""
        for copier, until_time in list(self._stopped.items()):
            if time.monotonic() > until_time:
                self._go_on(copier)
        for copier in self._all:
            if copier not in self._stopped:
                copier.end_if_stuck()
            copier.start()

    def kill_one(self) -> None:
        copier = self._chance.choice(self._all)
        self._stopped.pop(copier, None)
        copier.kill()

    def stop_one(self) -> None:
        """For longer than its session, or for less."""
        copier = self._chance.choice(self._all)
        copier.signal(signal.SIGSTOP)
        self._stopped[copier] = time.monotonic() + self._chance.choice((0.5, 4.5))

    def go_on(self) -> None:
        """Those that are stopped."""
        for copier in list(self._stopped):
            self._go_on(copier)

    def kill(self) -> None:
        for copier in self._all:
            copier.kill()

    def _go_on(self, copier: CopierProcess) -> None:
        del self._stopped[copier]
        copier.signal(signal.SIGCONT)


@dataclass(slots=True)
class FedTransaction:
    """What was sent to each partition. Unless it was acknowledged, all of it is there or nothing."""

    values: list[list[str]]
    is_acknowledged: bool = False


class Feeder:
    """Writes the input in transactions, by a producer of either client until it fails, and knows what the input may be."""

    def __init__(self, copying: Copying, history: HistoryWriter, records_per_transaction: int) -> None:
        self._copying, self._history, self._records = copying, history, records_per_transaction
        self._fed: list[FedTransaction] = []
        self._lives = 0
        self._last_number = 0
        self._current: tuple[RecordedProducer, ProcessRecorder] | None = None

    def feed(self) -> bool:
        """One transaction, by the only producer of its id; say whether it was acknowledged."""
        try:
            if self._current is None:
                self._current = self._new_producer()
            self._one_transaction(*self._current)
        except Exception:  # noqa: BLE001 - each client has its own errors; what is there in the end is what counts
            self.drop()
            return False
        return True

    def acknowledged(self) -> int:
        """Records."""
        return sum(sum(map(len, one.values)) for one in list(self._fed) if one.is_acknowledged)

    def expected(self, there: set[str]) -> list[list[str]]:
        """The input of each partition, where these values are there."""
        found: list[list[str]] = [[] for _ in range(self._copying.partitions)]
        for one in self._fed:
            if one.is_acknowledged or any(value in there for values in one.values for value in values):
                for all_values, values in zip(found, one.values, strict=True):
                    all_values += values
        return found

    def is_all_in(self, there: set[str]) -> bool:
        """Everything that was acknowledged is among these."""
        return all(
            value in there for one in self._fed if one.is_acknowledged for values in one.values for value in values
        )

    def drop(self) -> None:
        """Give the producer up. The next one of its id ends what it has left."""
        current, self._current = self._current, None
        if current is not None:
            threading.Thread(target=current[0].close, daemon=True).start()

    def _new_producer(self) -> tuple[RecordedProducer, ProcessRecorder]:
        self._lives += 1
        make = list(FEEDERS.values())[self._lives % len(FEEDERS)]
        producer = make(self._copying.bootstrap, f"feeder-of-{self._copying.source}", self._copying.patience_seconds)
        return producer, self._history.process(f"feeder.{self._lives}")

    def _one_transaction(self, producer: RecordedProducer, process: ProcessRecorder) -> None:
        fed = FedTransaction([[] for _ in range(self._copying.partitions)])
        self._fed.append(fed)
        with process.operation() as operation:
            producer.begin()
            for _ in range(self._records):
                self._last_number += 1
                for place, values in zip(self._copying.inputs, fed.values, strict=True):
                    values.append(f"{place[1]}:{self._last_number}")
                    producer.send(operation, place, values[-1])
            producer.commit()
            operation.ok()
        fed.is_acknowledged = True


class Following:
    """Reads the output all the time, in a thread, as a read_committed reader."""

    def __init__(self, copying: Copying, history: HistoryWriter) -> None:
        self.values: dict[str, list[str]] = defaultdict(list)
        self._stop = threading.Event()
        self._process = history.process("follower")
        self._reader = ConfluentReader(copying.bootstrap, copying.outputs, self._process, "read_committed")
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def count(self) -> int:
        return sum(map(len, list(self.values.values())))

    def gets_on(self, end: int) -> Callable[[], bool]:
        """Whether it has read more than now, or everything."""
        before = self.count()
        return lambda: self.count() > before or self.count() >= end

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _read(self) -> None:
        while not self._stop.is_set():
            read_into(self.values, self._reader, self._process)
        self._reader.close()


def read_into(values: dict[str, list[str]], reader: ConfluentReader, process: ProcessRecorder) -> None:
    with process.operation() as operation:
        records = reader.poll(0.2)
        operation.polled(records)
        operation.ok()
    for key, _, value in records:
        values[key].append(value.split(SEPARATOR)[0])


def read_to_the_end(bootstrap: str, places: list[Place], history: HistoryWriter) -> dict[str, list[str]]:
    process = history.process("reader")
    process.final()
    reader = ConfluentReader(bootstrap, places, process, "read_committed")
    values: dict[str, list[str]] = defaultdict(list)
    while reader.ended != {key_of(place) for place in places}:
        read_into(values, reader, process)
    reader.close()
    return dict(values)


def records_fed(copying: Copying, feeder: Feeder) -> int:
    """How many records the input has, once the last transaction was acknowledged and nothing more is sent.

    A commit may be answered before readers of what is committed see the last of it.
    """
    found = [0]

    def is_complete() -> bool:
        records = read_all(copying.bootstrap, copying.source, copying.partitions)
        found[0] = records.total()
        return feeder.is_all_in({value for _, _, value in records})

    until(is_complete)
    return found[0]


def output_is_the_input(
    copying: Copying, feeder: Feeder, at_the_end: dict[str, list[str]], followed: dict[str, list[str]]
) -> None:
    """For who reads all of it now, and for who has followed it."""
    there = {value for place in copying.inputs for value in at_the_end.get(key_of(place), [])}
    expected = feeder.expected(there)
    for places, values in ((copying.inputs, at_the_end), (copying.outputs, at_the_end), (copying.outputs, followed)):
        for place, wanted in zip(places, expected, strict=True):
            found = values.get(key_of(place), [])
            assert found == wanted, f"{key_of(place)}: {_difference(found, wanted)}"


def _difference(found: list[str], wanted: list[str]) -> str:
    times = Counter(found)
    missing = [value for value in wanted if value not in times]
    several = [value for value, count in times.items() if count > 1]
    not_wanted = sorted(times.keys() - set(wanted))
    first = next((at for at, (one, other) in enumerate(zip(found, wanted, strict=False)) if one != other), len(found))
    return (
        f"{len(found)} records of {len(wanted)}, others from {first} on, {len(missing)} missing: {missing[:5]}, "
        f"{len(several)} more than once: {several[:5]}, {len(not_wanted)} that are not expected: {not_wanted[:5]}"
    )


def judge(directory: Path, seed: int) -> CheckReport:
    """What the checker makes of all histories of a directory. Fails where it finds a fault."""
    report = check(read_history(sorted(directory.glob("*.jsonl"))))
    assert report.is_sound, f"seed {seed}: {[one.sentence for one in report.examples if one.is_fault]}"
    assert (report.is_unseen_judged, report.found[Anomaly.UNKNOWN_WRITER]) == (True, 0)
    return report
