"""The bytes of `__consumer_offsets`: offset commits, versions 0 to 4 (KIP-211, KIP-320, KIP-915)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import jars, requirements
from oncelog.groups import CommittedOffset, OffsetRecord, decode, encode
from oncelog.records import Record, build_batch
from oncelog.wire import WireError

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
NAMES = st.text(st.characters(codec="utf-8"), max_size=40)
COMMITTED = CommittedOffset(offset=42, leader_epoch=3, metadata="m", commit_ms=1000)
TOOL_OF_4_3 = "org.apache.kafka.tools.DumpLogSegments"
TOOL_OF_3_9 = "kafka.tools.DumpLogSegments"
TOPIC_ID = UUID("abababab" * 4)
KEY = bytes.fromhex("0001 0001 67 0001 74 00000007")


def record_of(committed: CommittedOffset | None) -> OffsetRecord:
    return OffsetRecord("g", "t", 7, committed, 1000)


@given(NAMES, NAMES, INT32, INT64, INT32, NAMES, INT64)
def test_offset_is_read_back(
    group: str, topic: str, partition: int, offset: int, leader_epoch: int, metadata: str, commit_ms: int
) -> None:
    record = OffsetRecord(group, topic, partition, CommittedOffset(offset, leader_epoch, metadata, commit_ms), 9)
    assert decode(encode(record)) == record


@given(INT64, NAMES, INT64, st.integers(0, 2**63 - 1))
def test_offset_with_a_retention_of_its_own_has_no_leader_epoch(
    offset: int, metadata: str, commit_ms: int, expire_ms: int
) -> None:
    wanted = record_of(CommittedOffset(offset, 5, metadata, commit_ms, expire_ms))
    assert decode(encode(wanted)) == record_of(CommittedOffset(offset, -1, metadata, commit_ms, expire_ms))


def test_bytes_are_kafka_s() -> None:
    record = encode(record_of(COMMITTED))
    assert record.key == KEY
    assert record.value == bytes.fromhex("0003 000000000000002a 00000003 0001 6d 00000000000003e8")
    with_id = encode(record_of(COMMITTED._replace(topic_id=TOPIC_ID)))
    assert with_id.value == bytes.fromhex("0004 000000000000002a 00000003 02 6d 00000000000003e8 01 00 10" + "ab" * 16)
    expiring = encode(record_of(COMMITTED._replace(expire_ms=2000)))
    assert expiring.value == bytes.fromhex("0001 000000000000002a 0001 6d 00000000000003e8 00000000000007d0")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0000 000000000000002a 0001 6d 00000000000003e8", CommittedOffset(42, -1, "m", 1000)),
        ("0001 000000000000002a 0001 6d 00000000000003e8 00000000000007d0", CommittedOffset(42, -1, "m", 1000, 2000)),
        ("0002 000000000000002a 0001 6d 00000000000003e8", CommittedOffset(42, -1, "m", 1000)),
        ("0003 000000000000002a 00000003 0001 6d 00000000000003e8", COMMITTED),
        ("0004 000000000000002a 00000003 02 6d 00000000000003e8 00", COMMITTED),
        (
            "0004 000000000000002a 00000003 02 6d 00000000000003e8 01 00 10" + "ab" * 16,
            COMMITTED._replace(topic_id=TOPIC_ID),
        ),
        ("0004 000000000000002a 00000003 02 6d 00000000000003e8 01 00 10" + "00" * 16, COMMITTED),
        ("0004 000000000000002a 00000003 02 6d 00000000000003e8 01 05 01 ab", COMMITTED),
    ],
)
def test_every_version_that_kafka_wrote_is_read(value: str, expected: CommittedOffset) -> None:
    assert decode(Record(KEY, bytes.fromhex(value), timestamp_ms=1000)) == record_of(expected)


def test_legacy_key_is_read() -> None:
    assert decode(Record(b"\x00\x00" + KEY[2:], None, timestamp_ms=1000)) == record_of(None)


def test_tombstone_is_read_back() -> None:
    record = encode(record_of(None))
    assert record.value is None
    assert decode(record) == record_of(None)


@pytest.mark.parametrize("key_version", [9, 17, -1])
def test_records_of_other_kinds_are_skipped(key_version: int) -> None:
    assert decode(Record(key_version.to_bytes(2, "big", signed=True) + KEY[2:], b"\x00\x00")) is None


@pytest.mark.parametrize("version", [5, -1])
def test_value_of_an_unknown_version_is_skipped(version: int) -> None:
    assert decode(Record(KEY, version.to_bytes(2, "big", signed=True) + b"anything")) is None


@given(st.data())
def test_bytes_that_end_early_are_an_error(data: st.DataObject) -> None:
    record = encode(record_of(COMMITTED))
    assert record.value is not None
    with pytest.raises(WireError):
        decode(record._replace(value=record.value[: data.draw(st.integers(0, len(record.value) - 1))]))


def test_record_without_a_key_is_an_error() -> None:
    with pytest.raises(WireError):
        decode(Record(None, b""))


@pytest.mark.jvm
@pytest.mark.parametrize("knows_topic_ids", [True, False])
def test_kafka_s_own_tool_reads_every_record(tmp_path: Path, knows_topic_ids: bool) -> None:
    """Kafka 4.3 has topic ids here; 3.9, of which there are brokers in the same cluster, passes over them."""
    records = [
        encode(record_of(COMMITTED)),
        encode(record_of(COMMITTED._replace(topic_id=TOPIC_ID))),
        encode(record_of(COMMITTED._replace(expire_ms=2000))),
        encode(record_of(None)),
    ]
    segment = tmp_path / "__consumer_offsets-12" / "00000000000000000000.log"
    segment.parent.mkdir()
    segment.write_bytes(build_batch(records, producer_id=1000, producer_epoch=3, base_sequence=0, transactional=True))
    classpath = jars.classpath() if knows_topic_ids else jars.classpath_with_zookeeper()
    command = [requirements.java(), "-cp", classpath, TOOL_OF_4_3 if knows_topic_ids else TOOL_OF_3_9]
    command += ["--offsets-decoder", "--files", str(segment)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = [line.partition(" key: ")[2].partition(" payload: ") for line in lines if line.startswith("| offset:")]
    key = {"type": "1", "data": {"group": "g", "topic": "t", "partition": 7}}
    assert [json.loads(text) for text, _, _ in found] == [key] * 4
    stored = {"offset": 42, "leaderEpoch": 3, "metadata": "m", "commitTimestamp": 1000}
    expiring = {"offset": 42, "metadata": "m", "commitTimestamp": 1000, "expireTimestamp": 2000}
    assert json.loads(found[0][2]) == {"version": "3", "data": stored}
    topic_id = {"topicId": "q6urq6urq6urq6urq6urqw"} if knows_topic_ids else {}
    assert json.loads(found[1][2]) == {"version": "4", "data": stored | topic_id}
    assert json.loads(found[2][2]) == {"version": "1", "data": expiring}
    assert found[3][2] == "<DELETE>"
