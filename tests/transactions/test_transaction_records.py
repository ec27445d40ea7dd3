"""The bytes of `__transaction_state`: KIP-98 §Transaction log, KIP-915 (flexible values), KIP-890 (tagged fields)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import jars, requirements
from oncelog.records import Record, build_batch
from oncelog.transactions import TransactionMetadata, TransactionRecord, TransactionStatus, decode, encode
from oncelog.transactions.records import CLASSIC_VERSION, FLEXIBLE_VERSION
from oncelog.wire import WireError

LOGGED = [status for status in TransactionStatus if status.label not in ("Dead", "PrepareEpochFence")]
INT64 = st.integers(-(2**63), 2**63 - 1)
EPOCHS = st.integers(-1, 2**15 - 1)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)


@st.composite
def metadata(draw: st.DrawFn) -> TransactionMetadata:
    status = draw(st.sampled_from(LOGGED))
    partitions = draw(st.frozensets(st.tuples(NAMES, st.integers(0, 2**31 - 1)), max_size=6))
    return TransactionMetadata(
        transactional_id=draw(NAMES),
        producer_id=draw(INT64),
        previous_producer_id=draw(INT64),
        next_producer_id=draw(INT64),
        producer_epoch=draw(EPOCHS),
        last_producer_epoch=-1,
        timeout_ms=draw(st.integers(0, 2**31 - 1)),
        status=status,
        partitions=frozenset() if status is TransactionStatus.EMPTY else partitions,
        start_ms=draw(INT64),
        last_update_ms=draw(INT64),
        client_transaction_version=draw(st.integers(0, 2)),
    )


def record_of(value: TransactionMetadata) -> TransactionRecord:
    return TransactionRecord(value.transactional_id, value, value.last_update_ms)


ONGOING = TransactionMetadata(
    transactional_id="tx-1",
    producer_id=1000,
    previous_producer_id=999,
    next_producer_id=-1,
    producer_epoch=7,
    last_producer_epoch=-1,
    timeout_ms=60_000,
    status=TransactionStatus.ONGOING,
    partitions=frozenset({("t", 1), ("t", 0), ("u", 3)}),
    start_ms=1001,
    last_update_ms=1002,
    client_transaction_version=2,
)


@given(metadata())
def test_version_1_holds_everything_but_the_last_epoch(value: TransactionMetadata) -> None:
    assert decode(encode(record_of(value._replace(last_producer_epoch=5)))) == record_of(value)


@given(metadata())
def test_version_0_leaves_out_the_tagged_fields(value: TransactionMetadata) -> None:
    plain = value._replace(previous_producer_id=-1, next_producer_id=-1, client_transaction_version=0)
    assert decode(encode(record_of(value), CLASSIC_VERSION)) == record_of(plain)


def test_version_1_is_kafka_s_bytes() -> None:
    record = encode(record_of(ONGOING))
    assert record.key == bytes.fromhex("0000 0004") + b"tx-1"
    assert record.value == bytes.fromhex(
        "0001 00000000000003e8 0007 0000ea60 01"
        "03 02 74 03 00000000 00000001 00 02 75 02 00000003 00"
        "00000000000003ea 00000000000003e9"
        "02 00 08 00000000000003e7 02 02 0002"
    )


def test_version_0_is_kafka_s_bytes() -> None:
    assert encode(record_of(ONGOING), CLASSIC_VERSION).value == bytes.fromhex(
        "0000 00000000000003e8 0007 0000ea60 01"
        "00000002 0001 74 00000002 00000000 00000001 0001 75 00000001 00000003"
        "00000000000003ea 00000000000003e9"
    )


def test_tombstone_forgets_the_id() -> None:
    record = encode(TransactionRecord("tx-1", None, 5))
    assert record.value is None
    assert decode(record) == TransactionRecord("tx-1", None, 5)


def test_empty_id_has_null_partitions() -> None:
    empty = ONGOING._replace(status=TransactionStatus.EMPTY, partitions=frozenset())
    value = encode(record_of(empty)).value
    assert value is not None
    assert value[17] == 0


@pytest.mark.parametrize("position", [0, 1])
def test_unknown_key_version_is_skipped(position: int) -> None:
    assert decode(Record(bytes([position, 1]) + b"\x00\x04tx-1", b"")) is None


def test_unknown_value_version_is_skipped() -> None:
    record = encode(record_of(ONGOING))
    assert record.value is not None
    assert decode(record._replace(value=b"\x00\x02" + record.value[2:])) is None


def test_unknown_tagged_field_is_ignored() -> None:
    record = encode(record_of(ONGOING._replace(previous_producer_id=-1, client_transaction_version=0)))
    assert record.value is not None
    newer = record._replace(value=record.value[:-1] + bytes.fromhex("01 03 02 0005"))
    assert decode(newer) == decode(record)


@given(metadata(), st.data())
def test_bytes_that_end_early_are_an_error(value: TransactionMetadata, data: st.DataObject) -> None:
    record = encode(record_of(value))
    assert record.value is not None
    size_bytes = data.draw(st.integers(0, len(record.value) - 1))
    with pytest.raises(WireError):
        decode(record._replace(value=record.value[:size_bytes]))


@pytest.mark.parametrize("status", [6, 7, 8, -1])
def test_status_that_is_never_logged_is_an_error(status: int) -> None:
    record = encode(record_of(ONGOING))
    assert record.value is not None
    broken = record.value[:16] + status.to_bytes(1, "big", signed=True) + record.value[17:]
    with pytest.raises(WireError, match="status"):
        decode(record._replace(value=broken))


def test_record_without_a_key_is_an_error() -> None:
    with pytest.raises(WireError):
        decode(Record(None, b""))


@pytest.mark.jvm
def test_kafka_s_own_tool_reads_every_record(tmp_path: Path) -> None:
    values = [
        ONGOING._replace(status=TransactionStatus.EMPTY, partitions=frozenset(), start_ms=-1, previous_producer_id=-1),
        ONGOING,
        ONGOING._replace(status=TransactionStatus.PREPARE_COMMIT, producer_epoch=32767, next_producer_id=1001),
        ONGOING._replace(status=TransactionStatus.PREPARE_ABORT, partitions=frozenset()),
        ONGOING._replace(status=TransactionStatus.COMPLETE_ABORT, partitions=frozenset()),
    ]
    written = [
        (value, version, encode(record_of(value), version))
        for value in values
        for version in (CLASSIC_VERSION, FLEXIBLE_VERSION)
    ]
    records = [record for _, _, record in written] + [encode(TransactionRecord("tx-1", None, 2000))]
    read = dump(tmp_path, records)
    assert len(read) == len(records)
    for (value, version, _), (key, payload) in zip(written, read, strict=False):
        assert json.loads(key) == {"type": "0", "data": {"transactionalId": "tx-1"}}
        assert json.loads(payload) == {"version": str(version), "data": as_kafka_prints(value, version)}
    assert read[-1][1] == "<DELETE>"


def dump(directory: Path, records: list[Record]) -> list[tuple[str, str]]:
    """What Kafka's log dump says about each record: its key and its payload."""
    segment = directory / "__transaction_state-20" / "00000000000000000000.log"
    segment.parent.mkdir()
    segment.write_bytes(
        b"".join(build_batch([record], base_offset=n, leader_epoch=0) for n, record in enumerate(records))
    )
    command = [requirements.java(), "-cp", jars.classpath(), "org.apache.kafka.tools.DumpLogSegments"]
    command += ["--transaction-log-decoder", "--files", str(segment)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = [line.partition(" key: ")[2].partition(" payload: ") for line in lines if line.startswith("| offset:")]
    return [(key, payload) for key, _, payload in found]


def as_kafka_prints(value: TransactionMetadata, version: int) -> dict[str, object]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(value.partitions):
        topics.setdefault(topic, []).append(partition)
    partitions = [{"topic": topic, "partitionIds": ids} for topic, ids in topics.items()]
    printed: dict[str, object] = {
        "producerId": value.producer_id,
        "producerEpoch": value.producer_epoch,
        "transactionTimeoutMs": value.timeout_ms,
        "transactionStatus": value.status.value,
        "transactionPartitions": None if value.status is TransactionStatus.EMPTY else partitions,
        "transactionLastUpdateTimestampMs": value.last_update_ms,
        "transactionStartTimestampMs": value.start_ms,
    }
    if version == FLEXIBLE_VERSION:
        tagged = {
            "previousProducerId": (value.previous_producer_id, -1),
            "nextProducerId": (value.next_producer_id, -1),
            "clientTransactionVersion": (value.client_transaction_version, 0),
        }
        printed |= {name: number for name, (number, default) in tagged.items() if number != default}
    return printed
