"""Kafka's own tool reads logs that oncelog compacted, truncated and recovered, those of the coordinators by their decoders."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.broker_in_memory import BrokerInMemory, SteppedDisk
from harness.cleaned_logs import ControlType, clean, compacted, roll, write
from harness.dump_log import dump
from harness.log_on_memory_disk import DIRECTORY, LogOnMemoryDisk
from harness.manual_clock import ManualClock
from harness.memory_disk import MemoryDisk
from harness.transaction_in_memory import TV2, ProducerInMemory, make_topic
from oncelog.records import Codec

pytestmark = [pytest.mark.jvm, pytest.mark.slow, pytest.mark.drawn(3, together=True)]

ROLL_MS = 1000
SETTINGS = {
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
    "log_roll_ms": str(ROLL_MS),
    "log_cleaner_delete_retention_ms": "0",
    "log_cleaner_min_cleanable_ratio": "0",
    "log_cleaner_backoff_ms": "5000",
}
TRANSACTIONS = 40


def export(disk: MemoryDisk, directory: Path, prefix: str) -> list[Path]:
    """Write the files with something in them where the tool finds them."""
    found = []
    for name in sorted(disk.names.files):
        data = disk.read_file(name) if name.startswith(prefix) else b""
        path = directory / name.lstrip("/")
        if data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            found.append(path)
    return found


def of(files: list[Path], suffix: str) -> list[Path]:
    found = [path for path in files if path.suffix == suffix]
    assert found, suffix
    return found


def no_fault(printed: str) -> str:
    assert "isvalid: false" not in printed
    assert "Found" not in printed, "the tool finds fault with a file"
    assert not re.search("ismatch|out of order|does not exist", printed)
    return printed


def cleaned_log() -> LogOnMemoryDisk:
    """Every codec, tombstones, both ends of transactions; cleaned twice, and then torn by a kill and recovered."""
    on = LogOnMemoryDisk(compacted(index_interval_bytes=100))
    for number in range(30):
        producer = (number % 3, 0)
        records: list[tuple[bytes | None, bytes | None]] = [
            (b"k%d" % (number * 7 % 5), b"v%d" % number),
            (b"t%d" % (number % 4), None if number % 4 == 1 else b"x" * 50),
        ]
        on.clock.advance(10)
        write(on, records, producer=producer, sequence=number // 3 * 2, transactional=True, codec=Codec(number % 5))
        on.mark(ControlType.ABORT if number % 3 == 1 else ControlType.COMMIT, producer)
        if number in (12, 24):
            roll(on)
            assert clean(on)
    newest = max(name for name in on.disk.list_directory(DIRECTORY) if name.endswith(".log"))
    file = on.disk.open(f"{DIRECTORY}/{newest}")
    file.append([b"torn" * 10])
    file.close()
    on.kill()
    assert on.log.recovery.bytes_cut == 40
    on.log.close()
    return on


def truncated_log() -> LogOnMemoryDisk:
    on = LogOnMemoryDisk(compacted(is_compacted=False, index_interval_bytes=100))
    for sequence in range(30):
        on.clock.advance(10)
        on.produce(b"x" * 100, producer=(1, 0), sequence=sequence)
    on.log.truncate_to(17)
    on.produce(b"after", producer=(1, 0), sequence=17)
    on.log.close()
    return on


def test_compacted_recovered_and_truncated_logs(tmp_path: Path) -> None:
    files = []
    for name, on in (("cleaned", cleaned_log()), ("truncated", truncated_log())):
        files += export(on.disk, tmp_path / name, "/data/")
    printed = no_fault(dump(of(files, ".log"), "--deep-iteration", "--print-data-log"))
    ends = re.split("(?m)^Dumping .*/truncated/", printed)
    assert max(int(one) for one in re.findall(r" lastOffset: (\d+)", "".join(ends[1:]))) == 17
    assert "endTxnMarker: COMMIT" in ends[0]
    no_fault(dump([*of(files, ".index"), *of(files, ".timeindex")]))
    assert "producerId: " in dump([*of(files, ".txnindex"), *of(files, ".snapshot")])


def test_compacted_logs_of_the_coordinators(tmp_path: Path) -> None:
    broker = BrokerInMemory(SteppedDisk(), ManualClock(), **SETTINGS)
    make_topic(broker)
    producer = ProducerInMemory(broker, TV2)
    for number in range(1, TRANSACTIONS + 1):
        producer.write(str(number), number)
        producer.end(committed=True)
        broker.settle()
        broker.clock.advance(ROLL_MS + 1)
        broker.settle()
    broker.core.stop()
    broker.settle()
    decisions = export(broker.disk, tmp_path, "/data/__transaction_state-0/")
    printed = no_fault(dump(of(decisions, ".log"), "--transaction-log-decoder"))
    found = re.findall(r'"transactionalId":"(\w+)"', printed)
    assert set(found) == {"teller"}
    assert len(found) < TRANSACTIONS, "it was cleaned"
    offsets = export(broker.disk, tmp_path, "/data/__consumer_offsets-0/")
    printed = no_fault(dump(of(offsets, ".log"), "--offsets-decoder"))
    found = re.findall(r'"offset":(\d+)', printed)
    assert found[-1] == str(TRANSACTIONS)
    assert len(found) < TRANSACTIONS, "it was cleaned"
