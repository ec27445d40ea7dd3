"""The bytes of `__consumer_offsets`: group metadata, key type 2, values 0 to 4 (KIP-62, KIP-211, KIP-345, KIP-915)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.dump_log import dump
from harness.group_requests import subscription
from oncelog.groups import GroupMetadataRecord, GroupMetadataValue, StoredMember, decode, encode
from oncelog.records import Record, build_batch
from oncelog.wire import WireError

INT32 = st.integers(-(2**31), 2**31 - 1)
POSITIVE = st.integers(0, 2**31 - 1)
NAMES = st.text(st.characters(codec="utf-8"), max_size=30)
MAYBE = st.none() | NAMES
MEMBERS = st.builds(
    StoredMember, NAMES, MAYBE, NAMES, NAMES, POSITIVE, POSITIVE, st.binary(max_size=50), st.binary(max_size=50)
)
METADATA = st.builds(
    GroupMetadataValue, NAMES, INT32, MAYBE, MAYBE, st.integers(-1, 2**62), st.lists(MEMBERS, max_size=4).map(tuple)
)
MEMBER = StoredMember("m", "i", "c", "/h", 60_000, 10_000, b"\x01\x02", b"\x03")
STABLE = GroupMetadataValue("consumer", 7, "range", "m", 1000, (MEMBER,))
KEY = bytes.fromhex("0002 0001 67")


def record_of(metadata: GroupMetadataValue | None) -> GroupMetadataRecord:
    return GroupMetadataRecord("g", metadata, 1000)


@given(NAMES, METADATA)
def test_metadata_is_read_back(group: str, metadata: GroupMetadataValue) -> None:
    record = GroupMetadataRecord(group, metadata, 5)
    assert decode(encode(record)) == record


def test_version_3_is_written_field_by_field() -> None:
    record = encode(record_of(STABLE))
    assert record.key == KEY
    fields = (
        "0003 0008 636f6e73756d6572 00000007 0005 72616e6765 0001 6d 00000000000003e8 00000001"
        "0001 6d 0001 69 0001 63 0002 2f68 0000ea60 00002710 00000002 0102 00000001 03"
    )
    assert record.value == bytes.fromhex(fields)


def test_group_that_is_empty_has_neither_protocol_nor_leader() -> None:
    record = encode(record_of(GroupMetadataValue("", 0, None, None, -1)))
    assert record.value == bytes.fromhex("0003 0000 00000000 ffff ffff ffffffffffffffff 00000000")


TYPE, NUMBER, PROTOCOL, LEADER = "0008 636f6e73756d6572", "00000007", "0005 72616e6765", "0001 6d"
WHO, WHERE, REBALANCE, SESSION = "0001 6d", "0001 63 0002 2f68", "0000ea60", "00002710"
USER_ERRORS = "00000002 0102 00000001 03"
TIME, ONE, INSTANCE = "00000000000003e8", "00000001", "0001 69"
BEFORE_STATIC = STABLE._replace(members=(MEMBER._replace(instance_id=None),))
BEFORE_TIMES = BEFORE_STATIC._replace(state_ms=-1)
BEFORE_TIMEOUTS = BEFORE_TIMES._replace(members=(MEMBER._replace(instance_id=None, rebalance_timeout_ms=10_000),))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (f"0000 {TYPE} {NUMBER} {PROTOCOL} {LEADER} {ONE} {WHO} {WHERE} {SESSION} {USER_ERRORS}", BEFORE_TIMEOUTS),
        (
            f"0001 {TYPE} {NUMBER} {PROTOCOL} {LEADER} {ONE} {WHO} {WHERE} {REBALANCE} {SESSION} {USER_ERRORS}",
            BEFORE_TIMES,
        ),
        (
            f"0002 {TYPE} {NUMBER} {PROTOCOL} {LEADER} {TIME} {ONE} {WHO} {WHERE} {REBALANCE} {SESSION} {USER_ERRORS}",
            BEFORE_STATIC,
        ),
        (
            f"0003 {TYPE} {NUMBER} {PROTOCOL} {LEADER} {TIME} {ONE} {WHO} {INSTANCE} {WHERE} {REBALANCE} {SESSION} {USER_ERRORS}",
            STABLE,
        ),
        (
            f"0004 09 636f6e73756d6572 {NUMBER} 06 72616e6765 02 6d {TIME} 02"
            f"02 6d 02 69 02 63 03 2f68 {REBALANCE} {SESSION} 03 0102 02 03 00 00",
            STABLE,
        ),
    ],
    ids=["v0", "v1", "v2", "v3", "v4"],
)
def test_every_version_is_read(value: str, expected: GroupMetadataValue) -> None:
    """Before v1 the session timeout was the rebalance timeout; before v2 nobody knows since when a group is empty."""
    assert decode(Record(KEY, bytes.fromhex(value), timestamp_ms=1000)) == record_of(expected)


def test_group_that_is_gone_has_no_value() -> None:
    record = encode(record_of(None))
    assert (record.key, record.value) == (KEY, None)
    assert decode(record) == record_of(None)


@pytest.mark.parametrize("version", [5, -1])
def test_values_of_unknown_versions_are_skipped(version: int) -> None:
    assert decode(Record(KEY, version.to_bytes(2, "big", signed=True) + b"anything")) is None


@given(st.data())
def test_value_that_is_cut_short_is_an_error(data: st.DataObject) -> None:
    record = encode(record_of(STABLE))
    assert record.value is not None
    cut = data.draw(st.integers(0, len(record.value) - 1))
    with pytest.raises(WireError):
        decode(record._replace(value=record.value[:cut]))


def test_null_bytes_are_an_error() -> None:
    value = (
        f"0003 {TYPE} {NUMBER} {PROTOCOL} {LEADER} {TIME} {ONE} {WHO} {INSTANCE} {WHERE} {REBALANCE} {SESSION} ffffffff"
    )
    with pytest.raises(WireError):
        decode(Record(KEY, bytes.fromhex(value)))


@pytest.mark.jvm
def test_kafkas_dump_log_reads_what_is_written(tmp_path: Path) -> None:
    """It shows the consumers' own bytes too, so these have to be such."""
    assignment = bytes.fromhex("0000 00000001 0001 74 00000001 00000002 ffffffff")
    member = MEMBER._replace(subscription=subscription("t"), assignment=assignment)
    written = [STABLE, GroupMetadataValue("consumer", 8, None, None, 2000), None]
    written[0] = STABLE._replace(members=(member,))
    records = [encode(record_of(metadata)) for metadata in written]
    segment = tmp_path / f"{0:020}.log"
    segment.write_bytes(build_batch(records, leader_epoch=0))
    printed = dump([segment], "--offsets-decoder")
    found = re.findall(r" key: (\{.*?\}) payload: (\{.*\}|<DELETE>)$", printed, re.MULTILINE)
    assert [json.loads(key) for key, _ in found] == [{"type": "2", "data": {"group": "g"}}] * 3
    stable, empty = (json.loads(value)["data"] for _, value in found[:2])
    assert found[2][1] == "<DELETE>"
    assert (stable["protocolType"], stable["generation"], stable["protocol"], stable["leader"]) == (
        "consumer",
        7,
        "range",
        "m",
    )
    (shown,) = stable["members"]
    assert (shown["memberId"], shown["groupInstanceId"], shown["clientId"], shown["clientHost"]) == (
        "m",
        "i",
        "c",
        "/h",
    )
    assert (shown["rebalanceTimeout"], shown["sessionTimeout"]) == (60_000, 10_000)
    assert (empty["generation"], empty["protocol"], empty["currentStateTimestamp"], empty["members"]) == (
        8,
        None,
        2000,
        [],
    )
