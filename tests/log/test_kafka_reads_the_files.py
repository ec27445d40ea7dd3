"""Kafka's own tool reads every file of a log, and finds in it what was written."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import jars, requirements
from harness.manual_clock import ManualClock
from oncelog.log import LogConfig, PartitionLog, open_log
from oncelog.records import Codec, ControlType, Record, build_batch, check_batch
from oncelog.server.disk import RealDisk

pytestmark = pytest.mark.jvm


@pytest.fixture
def disk() -> Iterator[RealDisk]:
    with RealDisk(lambda callback: callback(), pytest.fail) as disk:
        yield disk


def dump(*paths: Path, options: tuple[str, ...] = ()) -> str:
    files = ",".join(str(path) for path in paths)
    command = [
        requirements.java(),
        "-cp",
        jars.classpath(),
        "org.apache.kafka.tools.DumpLogSegments",
        *options,
        "--files",
        files,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write(log: PartitionLog, clock: ManualClock) -> None:
    """Plain, compressed, idempotent, committed and aborted records, in several segments."""
    for slot in range(150):
        clock.advance(7)
        records = [Record(b"k", bytes(100), timestamp_ms=clock.now_ms() - one) for one in range(3)]
        batches = [
            build_batch(records, codec=Codec(slot % 5)),
            build_batch(records, producer_id=10, producer_epoch=2, base_sequence=3 * slot),
            build_batch(records, producer_id=11, producer_epoch=0, base_sequence=3 * slot, transactional=True),
        ]
        for batch in batches:
            log.append(batch, check_batch(batch), verified=True)
        if slot % 10 == 9:
            log.append_marker(ControlType(slot // 10 % 2), 11, 0, 6, 1, clock.now_ms())
        log.advance_high_watermark(log.log_end_offset)


def test_every_file_is_readable_by_kafka(tmp_path: Path, disk: RealDisk) -> None:
    directory = tmp_path / "orders-0"
    clock = ManualClock(int(time.time() * 1000))
    config = LogConfig(segment_bytes=60_000, index_interval_bytes=1000)

    def opened(*, was_clean: bool, recovery_point: int) -> PartitionLog:
        return open_log(
            disk, clock, str(directory), "orders", 0, config, was_clean=was_clean, recovery_point=recovery_point
        )

    log = opened(was_clean=False, recovery_point=0)
    write(log, clock)
    # The first process is killed, the second one stops in good order.
    log = opened(was_clean=False, recovery_point=0)
    log.close()
    log = opened(was_clean=True, recovery_point=log.durability.recovery_point)
    for _ in range(3):
        clock.advance(5)
        batch = build_batch([Record(None, b"last", timestamp_ms=clock.now_ms())])
        log.append(batch, check_batch(batch))
    aborted = log.aborted_transactions(0, log.log_end_offset)
    end_offset = log.log_end_offset
    producers = log.producers.active()
    log.close()

    def files(suffix: str) -> list[Path]:
        found = sorted(directory.glob(f"*{suffix}"))
        assert found, suffix
        return found

    assert len(files(".log")) > 2
    batches = dump(*files(".log"), options=("--deep-iteration", "--print-data-log"))
    assert "isvalid: false" not in batches
    assert "Found" not in batches, "the tool finds fault with the file"
    assert max(int(offset) for offset in re.findall(r"lastOffset: (\d+)", batches)) == end_offset - 1
    assert len(re.findall(r"endTxnMarker: ABORT|endTxnMarker: COMMIT", batches)) == 15

    indexes = dump(*files(".index"))
    assert "Mismatches" not in indexes
    assert len(re.findall(r"offset: \d+ position: \d+", indexes)) > 20
    dump(*files(".index"), options=("--index-sanity-check",))

    times = dump(*files(".timeindex"))
    assert not re.search(r"Found timestamp mismatch|Found out of order|out of order", times)
    assert len(re.findall(r"timestamp: \d+ offset: \d+", times)) > 20
    dump(*files(".timeindex"), options=("--index-sanity-check",))

    transactions = dump(*files(".txnindex"))
    assert re.findall(
        r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", transactions
    ) == [tuple(map(str, one)) for one in aborted]

    snapshots = dump(files(".snapshot")[-1])
    shown = {
        int(producer_id): (int(epoch), int(coordinator_epoch), int(sequence))
        for producer_id, epoch, coordinator_epoch, sequence in re.findall(
            r"producerId: (\d+) producerEpoch: (\d+) coordinatorEpoch: (-?\d+) .*?lastSequence: (-?\d+)", snapshots
        )
    }
    assert shown == {
        one.producer_id: (one.producer_epoch, one.coordinator_epoch, one.last_sequence) for one in producers
    }
