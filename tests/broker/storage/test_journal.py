"""The broker's journal: what was acknowledged is read again, and a torn end is cut off."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.memory_disk import MemoryDisk
from oncelog.broker.storage.journal import (
    FILE_NAME,
    BootTrusted,
    BrokerConfigured,
    BrokerStarted,
    FeatureFinalized,
    GroupConfigured,
    Journal,
    MetadataRecord,
    ProducerIdsReserved,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
    TopicGrown,
    decode_line,
    encode_line,
)
from oncelog.environment import DiskError

PATH = f"/data/{FILE_NAME}"
NAMES = st.text(min_size=1)
RECORDS = st.one_of(
    st.builds(BrokerStarted, leader_epoch=st.integers(0)),
    st.builds(
        TopicCreated,
        name=NAMES,
        topic_id=st.uuids().map(str),
        partition_count=st.integers(1),
        configs=st.dictionaries(NAMES, NAMES),
    ),
    st.builds(TopicDeleted, name=NAMES),
    st.builds(TopicGrown, topic_id=st.uuids().map(str), partition_count=st.integers(1)),
    st.builds(TopicConfigured, topic_id=st.uuids().map(str), configs=st.dictionaries(NAMES, NAMES)),
    st.builds(BrokerConfigured, broker_id=st.sampled_from(["", "1"]), configs=st.dictionaries(NAMES, NAMES)),
    st.builds(GroupConfigured, group=NAMES, configs=st.dictionaries(NAMES, NAMES)),
    st.builds(FeatureFinalized, name=NAMES, level=st.integers(0)),
    st.builds(ProducerIdsReserved, next_producer_id=st.integers(0)),
)


def never(error: DiskError) -> None:
    raise AssertionError(error)


def written(records: list[MetadataRecord]) -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory("/data")
    journal = Journal(disk, "/data", never)
    for record in records:
        journal.append_now(record)
    return disk


@given(RECORDS)
def test_line_reads_back_as_it_was_written(record: MetadataRecord) -> None:
    assert decode_line(encode_line(record).removesuffix(b"\n")) == record


@given(st.lists(RECORDS, max_size=6), st.integers(0, 200))
def test_torn_end_is_cut_off_and_everything_before_it_is_kept(records: list[MetadataRecord], cut: int) -> None:
    disk = written(records)
    whole = disk.read_file(PATH)
    file = disk.open(PATH)
    file.truncate(max(0, len(whole) - cut))
    kept = list(Journal(disk, "/data", never).load())
    assert kept == records[: len(kept)]
    lines = [encode_line(record) for record in records]
    fits = sum(1 for count in range(1, len(lines) + 1) if len(b"".join(lines[:count])) <= len(whole) - cut)
    assert len(kept) == max(0, fits)
    assert disk.read_file(PATH) == b"".join(lines[: len(kept)])


def test_damage_before_the_end_is_an_error_and_nothing_is_cut() -> None:
    disk = written([TopicDeleted(name="a"), TopicDeleted(name="b")])
    disk.damage(PATH, 12, b"#")
    before = disk.read_file(PATH)
    with pytest.raises(DiskError, match="damaged at byte 0"):
        list(Journal(disk, "/data", never).load())
    assert disk.read_file(PATH) == before


def torn_at_the_first_of(records: list[MetadataRecord], boot_id: str) -> MemoryDisk:
    """Behind these the power was cut: the first is a hole, and the others are whole."""
    before = [BrokerStarted(leader_epoch=0), BootTrusted(boot_id=boot_id)]
    disk = written([*before, *records])
    at = sum(len(encode_line(record)) for record in before)
    disk.damage(PATH, at, bytes(len(encode_line(records[0])) - 1))
    return disk


def test_lines_that_a_power_cut_tore_are_cut_off_with_whole_ones_behind_them() -> None:
    disk = torn_at_the_first_of([TopicDeleted(name="a"), TopicDeleted(name="b")], "an earlier one")
    assert list(Journal(disk, "/data", never).load()) == [
        BrokerStarted(leader_epoch=0),
        BootTrusted(boot_id="an earlier one"),
    ]
    assert len(disk.read_file(PATH).splitlines()) == 2


@pytest.mark.parametrize("why", ["the boot is the same", "a start has read on since", "it was durable"])
def test_lines_that_no_power_cut_can_have_torn_are_an_error_and_nothing_is_cut(why: str) -> None:
    last = BrokerStarted(leader_epoch=1) if why.startswith("a start") else TopicDeleted(name="b")
    boot_id = MemoryDisk().boot_id() if why.startswith("the boot") else "an earlier one"
    disk = torn_at_the_first_of([TopicDeleted(name="a"), last], boot_id)
    before = disk.read_file(PATH)
    with pytest.raises(DiskError, match="damaged at byte"):
        list(Journal(disk, "/data", never).load(len(before) if why == "it was durable" else 0))
    assert disk.read_file(PATH) == before
