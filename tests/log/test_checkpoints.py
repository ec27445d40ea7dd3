from __future__ import annotations

from uuid import UUID

import pytest

from harness.memory_disk import MemoryDisk
from oncelog.environment import DirectoryInUseError, DiskError
from oncelog.log import read_topic_id, uuid_of, write_topic_id
from oncelog.log.checkpoints import (
    EpochStart,
    NodeIdentity,
    epoch_starts_checkpoint,
    read_epoch_starts,
    read_partition_offsets,
    write_partition_offsets,
)
from oncelog.log.data_directory import DataDirectory
from oncelog.log.leader_epochs import LeaderEpochs
from oncelog.log.names import offset_of, partition_of


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


def test_partition_offsets_are_lines_of_topic_partition_and_offset(disk: MemoryDisk) -> None:
    offsets = {("orders", 1): 20, ("orders", 0): 7, ("a-b.c_d", 11): 2**40}
    write_partition_offsets(disk, "/d/checkpoint", offsets)
    assert disk.read_file("/d/checkpoint") == b"0\n3\na-b.c_d 11 1099511627776\norders 0 7\norders 1 20\n"
    assert read_partition_offsets(disk, "/d/checkpoint") == offsets


def test_absent_checkpoint_is_empty(disk: MemoryDisk) -> None:
    assert read_partition_offsets(disk, "/d/checkpoint") == {}


@pytest.mark.parametrize(
    "content",
    [b"", b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na 0 x\n", b"0\n", b"\xff\n", b"0\n1\na  0 1\n"],
)
def test_malformed_checkpoint_is_named(disk: MemoryDisk, content: bytes) -> None:
    disk.replace_file("/d/checkpoint", content)
    with pytest.raises(DiskError, match="/d/checkpoint"):
        read_partition_offsets(disk, "/d/checkpoint")


def test_epochs_are_lines_of_epoch_and_start_offset(disk: MemoryDisk) -> None:
    starts = [EpochStart(0, 0), EpochStart(4, 17)]
    disk.replace_file("/d/epochs", epoch_starts_checkpoint(starts))
    assert disk.read_file("/d/epochs") == b"0\n2\n0 0\n4 17\n"
    assert read_epoch_starts(disk, "/d/epochs") == starts


def test_topic_id_is_url_safe_base64(disk: MemoryDisk) -> None:
    topic_id = UUID("fbefbeff-0000-4000-8000-0000000000ff")
    write_topic_id(disk, "/d/partition.metadata", topic_id)
    assert disk.read_file("/d/partition.metadata") == b"version: 0\ntopic_id: ----_wAAQACAAAAAAAAA_w"
    assert read_topic_id(disk, "/d/partition.metadata") == topic_id


def test_text_that_is_no_topic_id_is_refused() -> None:
    with pytest.raises(ValueError, match="base64"):
        uuid_of("AAAA")


def test_directory_has_one_owner(disk: MemoryDisk) -> None:
    owner = DataDirectory(disk, "/data")
    with pytest.raises(DirectoryInUseError):
        DataDirectory(disk, "/data")
    owner.release()
    DataDirectory(disk, "/data")


def test_clean_stop_is_believed_once(disk: MemoryDisk) -> None:
    directory = DataDirectory(disk, "/data")
    assert not directory.take_clean_shutdown()
    directory.mark_clean_shutdown()
    assert directory.take_clean_shutdown()
    assert not directory.take_clean_shutdown()


def test_directory_lists_its_partitions_and_forgets_deleted_ones(disk: MemoryDisk) -> None:
    directory = DataDirectory(disk, "/data")
    for name in ("orders-1", "orders-0", "a-b-12", "orders-0.00ff-delete", "lost+found"):
        disk.make_directory(f"/data/{name}")
    assert directory.partitions() == [("a-b", 12), ("orders", 0), ("orders", 1)]
    directory.remove_deleted()
    assert "orders-0.00ff-delete" not in disk.list_directory("/data")


def test_identity_survives(disk: MemoryDisk) -> None:
    directory = DataDirectory(disk, "/data")
    assert directory.identity() is None
    identity = NodeIdentity("cluster", 3, "AAAAAAAAAAAAAAAAAAAAAA")
    directory.write_identity(identity)
    assert directory.identity() == identity


def test_identity_of_a_java_properties_file_is_read(disk: MemoryDisk) -> None:
    directory = DataDirectory(disk, "/data")
    disk.replace_file("/data/meta.properties", b"#\n#Sat Nov 21 2026\nnode.id=1\nversion=1\ncluster.id=x=y\n")
    assert directory.identity() == NodeIdentity("x=y", 1, "")


def test_directory_keeps_each_kind_of_offset_in_its_own_file(disk: MemoryDisk) -> None:
    directory = DataDirectory(disk, "/data")
    directory.write_recovery_points({("t", 0): 1})
    directory.write_log_start_offsets({("t", 0): 2})
    directory.write_high_watermarks({("t", 0): 3})
    assert (directory.recovery_points(), directory.log_start_offsets(), directory.high_watermarks()) == (
        {("t", 0): 1},
        {("t", 0): 2},
        {("t", 0): 3},
    )


@pytest.mark.parametrize("name", ["123.log", "0000000000000000000a.log", "00000000000000000001.index", ".log"])
def test_names_of_other_files_are_no_segments(name: str) -> None:
    assert offset_of(name, ".log") is None


@pytest.mark.parametrize("name", ["orders", "-1", "orders-", "orders-x"])
def test_names_of_other_directories_are_no_partitions(name: str) -> None:
    assert partition_of(name) is None


def test_end_of_an_epoch_is_the_start_of_the_next() -> None:
    """OffsetForLeaderEpoch: the largest epoch not above the requested one, and where the next one starts."""
    epochs = LeaderEpochs([EpochStart(2, 10), EpochStart(5, 30)])
    assert epochs.end_offset(1, 50) == (1, 10)
    assert epochs.end_offset(2, 50) == (2, 30)
    assert epochs.end_offset(4, 50) == (2, 30)
    assert epochs.end_offset(5, 50) == (5, 50)
    assert epochs.end_offset(6, 50) == (-1, -1)
    assert [epochs.epoch_of(offset) for offset in (9, 10, 29, 30)] == [-1, 2, 2, 5]


def test_epoch_in_which_nothing_was_written_is_forgotten() -> None:
    epochs = LeaderEpochs([EpochStart(0, 0), EpochStart(1, 5)])
    assert epochs.assign(3, 5)
    assert epochs.starts == (EpochStart(0, 0), EpochStart(3, 5))
    assert not epochs.assign(3, 9)
    assert epochs.truncate_end(5)
    assert epochs.latest == 0
