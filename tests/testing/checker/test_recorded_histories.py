"""Histories of real clients on a real broker: no faults, and what a broken reading of them shows is found."""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random

import pytest

from harness.names import unique
from harness.recorded_clients import ConfluentReader, ConfluentRecorded, OwnReader, OwnRecorded, Place, key_of
from harness.shared_producer import Cluster
from oncelog.testing.checker import Anomaly, CheckReport, Ending, HistoryWriter, ProcessRecorder, check, read_history

CLIENTS = {"confluent-kafka": (ConfluentRecorded, ConfluentReader), "oncelog": (OwnRecorded, OwnReader)}
TRANSACTIONS = 12


class TransactionWorker:
    """Polls and sends in transactions; commits some, aborts others, and leaves some open as a program that dies does."""

    def __init__(self, seed: int, client: str, bootstrap: str, places: list[Place], history: HistoryWriter) -> None:
        self.name = unique("worker")
        self._producer_of, self._reader_of = CLIENTS[client]
        self._bootstrap, self._places, self._history = bootstrap, places, history
        self._chance, self._values, self._lives = Random(seed), 0, 0
        self._left_open: list[ConfluentRecorded | OwnRecorded] = []
        self.has_ended = False

    def run(self) -> None:
        done = 0
        while done < TRANSACTIONS:
            done += self._live(TRANSACTIONS - done)
        self.has_ended = True

    def _live(self, most: int) -> int:
        """One producer and one consumer, until a transaction is left open; the next life aborts that one."""
        self._lives += 1
        process = self._history.process(f"{self.name}.{self._lives}")
        producer = self._producer_of(self._bootstrap, self.name)
        reader = self._reader_of(self._bootstrap, self._places, process, "read_committed")
        for number in range(1, most + 1):
            with process.operation() as operation:
                producer.begin()
                operation.polled(reader.poll(0.05))
                for _ in range(self._chance.randint(1, 6)):
                    self._values += 1
                    producer.send(operation, self._chance.choice(self._places), f"{self.name}.{self._values}")
                if number < most and self._chance.random() < 0.2:
                    reader.close()
                    # librdkafka 2.16 may abort the process when a producer is destroyed as it adds partitions to its transaction.
                    self._left_open.append(producer)
                    return number
                if self._chance.random() < 0.6:
                    producer.commit()
                    operation.ok()
                else:
                    producer.abort()
                    operation.failed()
        reader.close()
        return most


def read_all(reader: ConfluentReader | OwnReader, process: ProcessRecorder, ends: dict[str, int]) -> None:
    """Poll until every key has given a record as far as the last that is there."""
    left = {key: end for key, end in ends.items() if end >= 0}
    while left:
        with process.operation() as operation:
            records = reader.poll(0.5)
            operation.polled(records)
            operation.ok()
        for key, offset, _ in records:
            if offset >= left.get(key, 1 << 62):
                del left[key]
    reader.close()


def last_values(path: Path, *, committed_alone: bool) -> dict[str, int]:
    """For each key the last offset at which a send is known to have landed."""
    ends: dict[str, int] = {}
    for operation in read_history([path]).operations:
        if operation.ending is Ending.OK or not committed_alone:
            for send in operation.sends:
                ends[send.key] = max(ends.get(send.key, -1), -1 if send.offset is None else send.offset)
    return ends


@pytest.fixture(params=CLIENTS)
def client(request):
    return request.param


@pytest.fixture
def recorded(client, oncelog_broker, tmp_path):
    """The places, and a history of transactions on them in which every transaction has ended."""
    topic = Cluster(oncelog_broker).create_topic(2)
    places = [(topic, 0), (topic, 1)]
    path = tmp_path / "history.jsonl"
    with HistoryWriter(path) as history:
        servers = oncelog_broker.bootstrap_servers
        workers = [TransactionWorker(seed, client, servers, places, history) for seed in range(3)]
        threads = [threading.Thread(target=worker.run, daemon=True) for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert all(worker.has_ended for worker in workers)
    return places, path


def judged(paths: list[Path]) -> CheckReport:
    report = check(read_history(paths))
    assert report.found[Anomaly.UNKNOWN_WRITER] == 0
    return report


def final_reading(client, bootstrap, recorded, path, isolation, *, committed_alone) -> Path:
    places, recorded_path = recorded
    with HistoryWriter(path) as history:
        process = history.process("reader")
        process.final()
        reader = CLIENTS[client][1](bootstrap, places, process, isolation)
        read_all(reader, process, last_values(recorded_path, committed_alone=committed_alone))
    return path


def test_transactions_of_a_real_client_have_no_fault(client, oncelog_broker, recorded, tmp_path):
    final = final_reading(
        client,
        oncelog_broker.bootstrap_servers,
        recorded,
        tmp_path / "final.jsonl",
        "read_committed",
        committed_alone=True,
    )
    report = judged([recorded[1], final])
    assert report.is_sound, [example.sentence for example in report.examples]
    assert report.is_unseen_judged
    endings = {operation.ending for operation in read_history([recorded[1]]).operations}
    assert endings == set(Ending)


def test_reader_of_uncommitted_records_sees_aborted_ones(client, oncelog_broker, recorded, tmp_path):
    final = final_reading(
        client,
        oncelog_broker.bootstrap_servers,
        recorded,
        tmp_path / "final.jsonl",
        "read_uncommitted",
        committed_alone=False,
    )
    report = judged([recorded[1], final])
    failed = [one for one in read_history([recorded[1]]).operations if one.ending is Ending.FAILED]
    assert report.faults[Anomaly.ABORTED_READ] == sum(len(list(one.sends)) for one in failed) > 0


def test_record_that_a_reader_left_out_is_found(client, oncelog_broker, recorded, tmp_path):
    final = final_reading(
        client,
        oncelog_broker.bootstrap_servers,
        recorded,
        tmp_path / "final.jsonl",
        "read_committed",
        committed_alone=True,
    )
    (ok, *_) = (one for one in read_history([recorded[1]]).operations if one.ending is Ending.OK and any(one.sends))
    sent = next(iter(ok.sends))
    assert sent.key in map(key_of, recorded[0])
    pair = f'[{sent.offset},"{sent.value}"]'
    text = final.read_text()
    assert pair in text
    for wrong in (f"{pair},", f",{pair}", pair):
        text = text.replace(wrong, "")
    final.write_text(text)
    report = judged([recorded[1], final])
    assert [one.values for one in report.examples if one.anomaly is Anomaly.UNSEEN] == [(sent.value,)]
