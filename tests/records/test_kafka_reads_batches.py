"""Kafka's own reader of log files is the referee of our bytes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from harness import requirements
from harness.jars import classpath
from oncelog.records import Codec, ControlType, Record, build_batch, control_batch, stamped

RECORDS = [
    Record(b"key", b"plain", (("trace", b"id"), ("empty", None)), 1_700_000_000_000),
    Record(None, b"no key", (), 1_700_000_000_500),
    Record(b"tombstone", None, (), 1_699_999_999_000),
]


@pytest.mark.jvm
def test_kafka_reads_the_batches_of_every_codec_and_the_markers(tmp_path: Path) -> None:
    log = b""
    offset = 0
    for codec in Codec:
        batch = build_batch(
            RECORDS, codec=codec, producer_id=9, producer_epoch=2, base_sequence=offset, transactional=True
        )
        log += b"".join(stamped(batch, offset, 4))
        offset += len(RECORDS)
    log += control_batch(ControlType.COMMIT, 9, 2, 6, 1_700_000_000_000, offset, 4)
    log += control_batch(ControlType.ABORT, 9, 2, 6, 1_700_000_000_000, offset + 1, 4)
    segment = tmp_path / "orders-0" / f"{0:020}.log"
    segment.parent.mkdir()
    segment.write_bytes(log)

    printed = dumped(segment)

    assert printed.count("isvalid: true") == len(Codec) + 2
    assert re.findall(r"compresscodec: (\w+)", printed) == [codec.name.lower() for codec in Codec] + ["none"] * 2
    records = re.findall(r"^\| offset: (\d+) .*headerKeys: \[(.*?)\] (.*)$", printed, re.MULTILINE)
    assert [int(found) for found, _, _ in records] == list(range(offset + 2))
    assert [keys for _, keys, _ in records[:3]] == ["trace,empty", "", ""]
    assert [content for *_, content in records[:offset]] == [
        "key: key payload: plain",
        "payload: no key",
        "key: tombstone",
    ] * len(Codec)
    assert [content for *_, content in records[offset:]] == [
        "endTxnMarker: COMMIT coordinatorEpoch: 6",
        "endTxnMarker: ABORT coordinatorEpoch: 6",
    ]


def dumped(segment: Path) -> str:
    """What `kafka-dump-log` prints of a segment, records included."""
    command = [requirements.java(), "-cp", classpath(), "org.apache.kafka.tools.DumpLogSegments"]
    command += ["--files", str(segment), "--deep-iteration", "--print-data-log"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
