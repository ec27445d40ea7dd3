"""The bytes of `__consumer_offsets`: consumer groups, key types 3 to 8 and 16 (KIP-848)."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.dump_log import dump
from harness.group_requests import subscription
from oncelog.groups import decode, encode
from oncelog.groups.consumer import (
    ClassicFacts,
    ConsumerRecord,
    CurrentAssignmentRecord,
    GroupEpochRecord,
    MemberRecord,
    MemberState,
    PartitionMetadataTombstone,
    Progress,
    RegexRecord,
    ResolvedRegex,
    Subscription,
    TargetEpochRecord,
    TargetRecord,
)
from oncelog.records import Record, build_batch
from oncelog.wire import WireError

TOPIC, OTHER = UUID(int=0x0A), UUID(int=0x0B)
TOPIC_BYTES = "0000000000000000000000000000000a"
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(st.characters(codec="utf-8"), max_size=20)
MAYBE = st.none() | NAMES
PARTITIONS = st.tuples(st.sampled_from((TOPIC, OTHER)), st.integers(0, 200))
OWNED = st.dictionaries(PARTITIONS, INT32, max_size=5)
CLASSIC = st.builds(ClassicFacts, INT32, st.lists(st.tuples(NAMES, st.binary(max_size=9)), max_size=2).map(tuple))
SUBSCRIPTIONS = st.builds(
    Subscription,
    *(MAYBE, MAYBE, NAMES, NAMES, st.frozensets(NAMES, max_size=3), MAYBE, INT32, MAYBE, st.none() | CLASSIC),
)
PROGRESS = st.builds(Progress, INT32, INT32, st.sampled_from(MemberState), OWNED, OWNED)
REGEXES = st.builds(ResolvedRegex, st.frozensets(NAMES, max_size=3), INT64, INT64)
RECORDS = st.one_of(
    st.builds(GroupEpochRecord, NAMES, INT32, INT64, st.just(5)),
    st.builds(MemberRecord, NAMES, NAMES, st.none() | SUBSCRIPTIONS, st.just(5)),
    st.builds(TargetEpochRecord, NAMES, INT32, INT64, st.just(5)),
    st.builds(TargetRecord, NAMES, NAMES, st.none() | st.frozensets(PARTITIONS, max_size=5), st.just(5)),
    st.builds(CurrentAssignmentRecord, NAMES, NAMES, st.none() | PROGRESS, st.just(5)),
    st.builds(RegexRecord, NAMES, NAMES, st.none() | REGEXES, st.just(5)),
)
USER_ERRORS = Subscription("i", "r", "c", "/h", frozenset({"t"}), "x.*", 1000, "range")
JOINED = replace(USER_ERRORS, classic=ClassicFacts(10_000, (("range", subscription("t")),)))
HAS = Progress(7, 6, MemberState.UNREVOKED_PARTITIONS, {(TOPIC, 0): 3}, {(TOPIC, 1): 5})


@given(RECORDS)
def test_record_is_read_back(record: ConsumerRecord) -> None:
    assert decode(encode(record)) == record


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (GroupEpochRecord("g", 7, 1, 5), "0003 0001 67", "0000 00000007 01 00 08 0000000000000001"),
        (GroupEpochRecord("g", 7, 0, 5), "0003 0001 67", "0000 00000007 00"),
        (
            MemberRecord("g", "m", USER_ERRORS, 5),
            "0005 0001 67 0001 6d",
            "0000 02 69 02 72 02 63 03 2f68 02 02 74 04 782e2a 000003e8 06 72616e6765 00",
        ),
        (
            MemberRecord("g", "m", replace(USER_ERRORS, classic=ClassicFacts(10_000, (("a", b"\1"),))), 5),
            "0005 0001 67 0001 6d",
            "0000 02 69 02 72 02 63 03 2f68 02 02 74 04 782e2a 000003e8 06 72616e6765"
            "01 00 0c 01 00002710 02 02 61 02 01 00 00",
        ),
        (TargetEpochRecord("g", 7, 5, 5), "0006 0001 67", "0000 00000007 01 00 08 0000000000000005"),
        (
            TargetRecord("g", "m", frozenset({(TOPIC, 1), (TOPIC, 0)}), 5),
            "0007 0001 67 0001 6d",
            f"0000 02 {TOPIC_BYTES} 03 00000000 00000001 00 00",
        ),
        (
            CurrentAssignmentRecord("g", "m", HAS, 5),
            "0008 0001 67 0001 6d",
            f"0000 00000007 00000006 01"
            f"02 {TOPIC_BYTES} 02 00000000 01 00 05 02 00000003"
            f"02 {TOPIC_BYTES} 02 00000001 01 00 05 02 00000005 00",
        ),
        (
            RegexRecord("g", "x.*", ResolvedRegex(frozenset({"xy"}), 3, 4), 5),
            "0010 0001 67 0003 782e2a",
            "0000 02 03 7879 0000000000000003 0000000000000004 00",
        ),
    ],
    ids=["epoch", "epoch without topics", "member", "classic member", "target epoch", "target", "current", "regex"],
)
def test_record_is_written_field_by_field(record: ConsumerRecord, key: str, value: str) -> None:
    assert encode(record) == Record(bytes.fromhex(key), bytes.fromhex(value), timestamp_ms=5)


def test_partitions_of_an_older_broker_count_since_the_epoch_of_their_member() -> None:
    """Before 4.2 nothing says when a partition was assigned."""
    value = f"0000 00000007 00000006 00 02 {TOPIC_BYTES} 02 00000000 00 01 00"
    record = decode(Record(bytes.fromhex("0008 0001 67 0001 6d"), bytes.fromhex(value), timestamp_ms=5))
    assert record == CurrentAssignmentRecord("g", "m", Progress(7, 6, MemberState.STABLE, {(TOPIC, 0): 7}), 5)


def test_state_of_a_newer_broker_is_one_that_is_not_known() -> None:
    """The member is fenced, and begins anew."""
    value = "0000 00000007 00000006 05 01 01 00"
    record = decode(Record(bytes.fromhex("0008 0001 67 0001 6d"), bytes.fromhex(value), timestamp_ms=5))
    assert record == CurrentAssignmentRecord("g", "m", Progress(7, 6, MemberState.UNKNOWN), 5)


@pytest.mark.parametrize("kind", [3, 5, 6, 7, 8, 16])
def test_values_of_unknown_versions_are_skipped(kind: int) -> None:
    key = kind.to_bytes(2, "big") + bytes.fromhex("0001 67 0001 6d")
    assert decode(Record(key, b"\x00\x01anything")) is None


def test_what_older_brokers_kept_of_topics_is_left_alone() -> None:
    """Since KIP-1101 a hash is kept instead."""
    key = bytes.fromhex("0004 0001 67")
    assert decode(Record(key, b"\x00\x00anything")) is None
    assert encode(PartitionMetadataTombstone("g", 5)) == Record(key, None, timestamp_ms=5)


@pytest.mark.parametrize(
    "written",
    [
        GroupEpochRecord("g", 7, 1, 5),
        MemberRecord("g", "m", JOINED, 5),
        TargetEpochRecord("g", 7, 1000, 5),
        TargetRecord("g", "m", frozenset({(TOPIC, 0)}), 5),
        CurrentAssignmentRecord("g", "m", HAS, 5),
        RegexRecord("g", "x.*", ResolvedRegex(frozenset({"xy"}), 3, 4), 5),
    ],
    ids=lambda written: type(written).__name__,
)
def test_value_that_is_cut_short_is_an_error(written: ConsumerRecord) -> None:
    record = encode(written)
    assert record.value is not None
    for size_bytes in range(len(record.value)):
        with pytest.raises(WireError):
            decode(record._replace(value=record.value[:size_bytes]))


@pytest.mark.jvm
def test_kafkas_dump_log_reads_what_is_written(tmp_path: Path) -> None:
    written: list[ConsumerRecord] = [
        GroupEpochRecord("g", 7, -5, 5),
        MemberRecord("g", "m", JOINED, 5),
        TargetEpochRecord("g", 7, 1000, 5),
        TargetRecord("g", "m", frozenset({(TOPIC, 0), (TOPIC, 2)}), 5),
        CurrentAssignmentRecord("g", "m", HAS, 5),
        RegexRecord("g", "x.*", ResolvedRegex(frozenset({"xy"}), 3, 4), 5),
        CurrentAssignmentRecord("g", "m", None, 5),
        TargetRecord("g", "m", None, 5),
        TargetEpochRecord("g", None, 0, 5),
        MemberRecord("g", "m", None, 5),
        RegexRecord("g", "x.*", None, 5),
        PartitionMetadataTombstone("g", 5),
        GroupEpochRecord("g", None, 0, 5),
    ]
    segment = tmp_path / f"{0:020}.log"
    segment.write_bytes(build_batch([encode(record) for record in written], leader_epoch=0))
    printed = dump([segment], "--offsets-decoder")
    found = re.findall(r" key: (\{.*?\}) payload: (\{.*\}|<DELETE>)$", printed, re.MULTILINE)
    keys = [json.loads(key) for key, _ in found]
    assert [key["type"] for key in keys] == ["3", "5", "6", "7", "8", "16", "8", "7", "6", "5", "16", "4", "3"]
    assert keys[1]["data"] == {"groupId": "g", "memberId": "m"}
    assert keys[5]["data"] == {"groupId": "g", "regularExpression": "x.*"}
    assert [value for _, value in found[6:]] == ["<DELETE>"] * 7
    epoch, member, target_epoch, target, current, regex = (json.loads(value)["data"] for _, value in found[:6])
    assert epoch == {"epoch": 7, "metadataHash": -5}
    assert (member["instanceId"], member["rackId"], member["subscribedTopicNames"]) == ("i", "r", ["t"])
    assert (member["subscribedTopicRegex"], member["serverAssignor"]) == ("x.*", "range")
    assert member["classicMemberMetadata"]["sessionTimeoutMs"] == 10_000
    assert [one["name"] for one in member["classicMemberMetadata"]["supportedProtocols"]] == ["range"]
    assert target_epoch == {"assignmentEpoch": 7, "assignmentTimestamp": 1000}
    assert [one["partitions"] for one in target["topicPartitions"]] == [[0, 2]]
    assert (current["memberEpoch"], current["previousMemberEpoch"], current["state"]) == (7, 6, 1)
    (has,), (gives_up,) = current["assignedPartitions"], current["partitionsPendingRevocation"]
    assert (has["partitions"], has["assignmentEpochs"]) == ([0], [3])
    assert (gives_up["partitions"], gives_up["assignmentEpochs"]) == ([1], [5])
    assert (regex["topics"], regex["version"], regex["timestamp"]) == (["xy"], 3, 4)
