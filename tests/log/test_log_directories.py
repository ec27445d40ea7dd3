"""The log directories of a node: one home, each partition in one of them, and nothing taken for what it is not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from random import Random
from uuid import UUID

import pytest

from harness.memory_disk import MemoryDisk
from oncelog.environment import DirectoryInUseError, DiskError, Share
from oncelog.log import LogDirectories, PartitionKey, Standing, write_topic_id
from oncelog.log.checkpoints import NodeIdentity, read_identity, write_identity
from oncelog.log.data_directory import DataDirectory
from oncelog.log.log_directories import RESERVE, Reserve

HOME_FILE = "home"
A, B, C = "/a", "/b", "/c"
TOPIC_ID = UUID(int=1)


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


class Known:
    """Topics that were deleted, and a partition that was made while a directory was absent."""

    def __init__(self, deleted: Sequence[str] = (), doubtful: tuple[PartitionKey, str] | None = None) -> None:
        self._deleted = deleted
        self._doubtful = doubtful

    def standing(self, key: PartitionKey, directory_id: str) -> Standing:
        if key[0] in self._deleted:
            return Standing.LEFT_OVER
        return Standing.DOUBTFUL if (key, directory_id) == self._doubtful else Standing.CURRENT

    def has(self, key: PartitionKey, topic_id: UUID | None) -> bool:
        return topic_id == TOPIC_ID


def taken(disk: MemoryDisk, *paths: str, deleted: Sequence[str] = ()) -> LogDirectories:
    directories = LogDirectories(disk, paths, HOME_FILE)
    directories.find_partitions(Known(deleted))
    return directories


def claimed(disk: MemoryDisk, *paths: str) -> dict[str, str]:
    """Take the directories for a node for the first time, and let them go."""
    directories = taken(disk, *paths)
    numbers = count()
    ids = directories.claim("cluster", 1, lambda: f"{paths[0]}-{next(numbers)}")
    disk.replace_file(f"{directories.home}/{HOME_FILE}", b"")
    directories.release()
    return ids


def made_by_a_broker(disk: MemoryDisk, path: str) -> None:
    disk.make_directory(path)
    disk.replace_file(f"{path}/partition.metadata", b"")


def test_new_node_is_at_home_in_the_first_directory(disk: MemoryDisk) -> None:
    assert taken(disk, A, B).home == A


@pytest.mark.parametrize("paths", [(A, B), (B, A), (C, B, A)])
def test_home_stays_where_it_is_however_the_list_is_changed(disk: MemoryDisk, paths: tuple[str, ...]) -> None:
    claimed(disk, A, B)
    assert taken(disk, *paths).home == A


def test_directory_that_another_process_has_is_named_and_the_others_are_let_go(disk: MemoryDisk) -> None:
    other = DataDirectory(disk, B)
    with pytest.raises(DirectoryInUseError, match=B):
        LogDirectories(disk, (A, B, C), HOME_FILE)
    other.release()
    LogDirectories(disk, (A, B, C), HOME_FILE)


def test_two_homes_are_two_nodes(disk: MemoryDisk) -> None:
    claimed(disk, A)
    claimed(disk, B)
    with pytest.raises(DiskError, match="/a and /b are the homes of two nodes"):
        LogDirectories(disk, (A, B), HOME_FILE)
    assert not disk.locked


def test_directories_of_another_cluster_are_refused(disk: MemoryDisk) -> None:
    for path, cluster in ((A, "one"), (B, "other")):
        disk.make_directory(path)
        write_identity(disk, f"{path}/meta.properties", NodeIdentity(cluster, 1, path))
    with pytest.raises(DiskError, match=r"/a is of node 1 of cluster one, and /b of node 1 of cluster other"):
        taken(disk, A, B).identity()


def test_directory_whose_home_is_not_named_does_not_begin_a_new_node(disk: MemoryDisk) -> None:
    claimed(disk, A, B)
    made_by_a_broker(disk, f"{B}/t-0")
    with pytest.raises(DiskError, match="/b has partitions or had, and home, which says of what topics, is in none"):
        LogDirectories(disk, (B,), HOME_FILE)


def test_other_directories_do_not_keep_a_node_from_beginning(disk: MemoryDisk) -> None:
    disk.make_directory(f"{A}/notes-2026")
    assert taken(disk, A).home == A


def test_each_directory_has_an_id_of_its_own_and_keeps_it(disk: MemoryDisk) -> None:
    first = claimed(disk, A, B)
    assert list(first.values()) == [A, B]
    again = taken(disk, B, C, A)
    later = again.claim("cluster", 1, lambda: "new")
    assert later == first | {"new": C}
    for directory_id, path in later.items():
        assert read_identity(disk, f"{path}/meta.properties") == NodeIdentity("cluster", 1, directory_id)


def test_new_partition_goes_to_the_directory_that_has_the_fewest(disk: MemoryDisk) -> None:
    """LogManager: new logs are created in the data directory with the fewest logs."""
    for index in range(3):
        disk.make_directory(f"{A}/old-{index}")
    directories = taken(disk, A, B, C)
    placed = [directories.place("new", index) for index in range(6)]
    assert placed == [f"{path}/new-{index}" for index, path in enumerate((B, C, B, C, B, C))]
    assert directories.place("last", 0) == f"{A}/last-0"


def test_partition_is_found_where_it_is(disk: MemoryDisk) -> None:
    disk.make_directory(f"{B}/t-0")
    directories = taken(disk, A, B)
    assert directories.partition_path("t", 0) == f"{B}/t-0"
    assert directories.holder("t", 0).path == B
    assert directories.partition_path("t", 1) is None


def test_partition_in_two_directories_is_an_error_that_names_both(disk: MemoryDisk) -> None:
    for path in (A, B):
        disk.make_directory(f"{path}/t-0")
    with pytest.raises(DiskError, match="partition t-0 is in two log directories, /a and /b: move the one"):
        taken(disk, A, B)


@pytest.mark.parametrize("seed", range(4))
def test_partition_that_was_moved_is_there_when_the_power_is_cut_while_the_start_finishes_the_move(
    disk: MemoryDisk, seed: int
) -> None:
    """The disk that it has left keeps the removal, and of the other one nobody else has asked to keep the new name."""
    disk.lose_by(Random(seed))
    claimed(disk, A, B)
    future = f"{B}/t-0.{0:032x}-future"
    for name in (f"{A}/t-0", future):
        made_by_a_broker(disk, name)
    disk.replace_file(f"{future}/oncelog-moved-1", b"")
    disk.commit_names()
    disk.rename(future, f"{B}/t-0")
    assert taken(disk, A, B).directory_of("t", 0) == B
    disk.replace_file(f"{A}/another", b"")
    disk.crash()
    assert not disk.exists(f"{A}/t-0")
    assert taken(disk, A, B).directory_of("t", 0) == B


def test_what_is_left_of_deleted_topics_goes_in_each_directory(disk: MemoryDisk) -> None:
    for index, path in enumerate((A, B)):
        for name in ("gone-0", "kept-0.0ff-delete", f"kept-{index}"):
            disk.make_directory(f"{path}/{name}")
    taken(disk, A, B, deleted=["gone"])
    assert (disk.list_directory(A), disk.list_directory(B)) == (["kept-0"], ["kept-1"])


def test_partition_that_was_made_while_a_directory_was_absent_is_not_the_one_in_there(disk: MemoryDisk) -> None:
    """How often that one was moved before says nothing: it is another replica."""
    ids = {path: directory_id for directory_id, path in claimed(disk, A, B).items()}
    for name in (f"{A}/t-0", f"{B}/t-0", f"{B}/t-1"):
        made_by_a_broker(disk, name)
    disk.replace_file(f"{B}/t-0/oncelog-moved-1", b"")
    directories = LogDirectories(disk, (A, B), HOME_FILE)
    directories.find_partitions(Known(doubtful=(("t", 0), ids[B])))
    assert (directories.directory_of("t", 0), directories.directory_of("t", 1)) == (A, B)
    assert disk.list_directory(f"{A}/t-0") == ["partition.metadata"]
    assert not disk.exists(f"{B}/t-0")


@pytest.mark.parametrize(("topic_id", "stays"), [(TOPIC_ID, True), (UUID(int=2), False), (None, False)])
def test_partition_that_is_nowhere_else_was_moved_by_hand_if_it_is_of_the_topic(
    disk: MemoryDisk, topic_id: UUID | None, stays: bool
) -> None:
    ids = {path: directory_id for directory_id, path in claimed(disk, A, B).items()}
    disk.make_directory(f"{B}/t-0")
    if topic_id is not None:
        write_topic_id(disk, f"{B}/t-0/partition.metadata", topic_id)
    directories = LogDirectories(disk, (A, B), HOME_FILE)
    directories.find_partitions(Known(doubtful=(("t", 0), ids[B])))
    assert disk.exists(f"{B}/t-0") is stays
    assert directories.partition_path("t", 0) == (f"{B}/t-0" if stays else None)


def test_room_that_a_deleted_topic_leaves_counts(disk: MemoryDisk) -> None:
    directories = taken(disk, A, B)
    assert [directories.place("t", index) for index in range(2)] == [f"{A}/t-0", f"{B}/t-1"]
    directories.place("kept", 0)
    directories.forget([("t", 0), ("t", 1)])
    assert directories.place("new", 0) == f"{B}/new-0"
    directories.forget([("kept", 0)])
    assert directories.place("newer", 0) == f"{A}/newer-0"


def test_partition_that_is_nowhere_while_a_directory_is_missing_is_not_begun_anew(disk: MemoryDisk) -> None:
    before = claimed(disk, A, B)
    disk.make_directory(f"{A}/t-0")
    partitions = [("t", 0), ("t", 1), ("t", 2)]
    without_b = taken(disk, A)
    with pytest.raises(DiskError, match=r"t-1 and 1 more partitions are in none of .* was the log directory /b"):
        without_b.check_complete(partitions, before)
    without_b.check_complete([("t", 0)], before)
    without_b.release()
    taken(disk, A, B).check_complete(partitions, before)


def test_directory_whose_disk_was_changed_for_an_empty_one_is_missed(disk: MemoryDisk) -> None:
    before = claimed(disk, A, B)
    disk.remove(B)
    with pytest.raises(DiskError, match="t-0 is in none of the log directories, and what was the log directory /b"):
        taken(disk, A, B).check_complete([("t", 0)], before)


def test_replicas_of_a_disk_that_was_changed_for_an_empty_one_are_begun_anew(disk: MemoryDisk) -> None:
    before = claimed(disk, A, B)
    disk.make_directory(f"{A}/t-0")
    disk.remove(B)
    partitions = [("t", 0), ("t", 1)]
    changed = taken(disk, A, B)
    changed.check_complete(partitions, before, are_replicas=True)
    assert changed.begun_anew == {("t", 1)}
    changed.release()
    # Whoever forgets to name a directory has lost nothing.
    with pytest.raises(DiskError, match="t-1 is in none of the log directories, and what was the log directory /b"):
        taken(disk, A).check_complete(partitions, before, are_replicas=True)


def mark_clean_shutdown(directories: LogDirectories) -> None:
    for directory in directories:
        directory.mark_clean_shutdown()


def test_stop_was_clean_only_if_every_directory_says_so(disk: MemoryDisk) -> None:
    claimed(disk, A, B)
    disk.make_directory(f"{A}/t-0")
    disk.make_directory(f"{B}/t-1")
    directories = taken(disk, A, B)
    assert not directories.take_clean_shutdown()
    mark_clean_shutdown(directories)
    directories.release()
    with_new = taken(disk, A, B, C)
    assert with_new.take_clean_shutdown(), "there is nothing in the new one"
    mark_clean_shutdown(with_new)
    disk.remove(f"{B}/.kafka_cleanshutdown")
    assert not with_new.take_clean_shutdown()
    assert not disk.exists(f"{A}/.kafka_cleanshutdown"), "it is believed once"


def test_offsets_of_a_partition_count_where_the_partition_is(disk: MemoryDisk) -> None:
    """A checkpoint may be left from the time when the directory had a partition of this name."""
    disk.make_directory(f"{B}/t-0")
    directories = taken(disk, A, B)
    for path, offset in ((A, 7), (B, 5)):
        disk.replace_file(f"{path}/recovery-point-offset-checkpoint", f"0\n1\nt 0 {offset}\n".encode())
        disk.replace_file(f"{path}/log-start-offset-checkpoint", f"0\n1\nt 0 {offset - 1}\n".encode())
    assert directories.recovery_points() == {("t", 0): 5}
    assert directories.log_start_offsets() == {("t", 0): 4}


def test_home_is_the_first_of_new_directories(disk: MemoryDisk) -> None:
    claimed(disk, A, B)
    directories = taken(disk, A, B)
    assert [directories.is_home(one) for one in directories.online] == [True, False]


SIZE_BYTES = 8192
PATH = f"/data/{RESERVE}"


@pytest.fixture
def data_disk() -> MemoryDisk:
    data_disk = MemoryDisk()
    data_disk.make_directory("/data")
    return data_disk


@pytest.fixture
def reserve(data_disk: MemoryDisk) -> Reserve:
    reserve = Reserve(data_disk, "/data", SIZE_BYTES)
    assert (reserve.held_bytes, reserve.missing_bytes) == (0, SIZE_BYTES)
    reserve.take()
    return reserve


def in_file(data_disk: MemoryDisk) -> int:
    return len(data_disk.read_file(PATH)) if data_disk.exists(PATH) else 0


def test_reserve_is_a_file_of_its_size_and_nothing_is_missing(data_disk: MemoryDisk, reserve: Reserve) -> None:
    assert in_file(data_disk) == reserve.held_bytes == SIZE_BYTES
    assert reserve.missing_bytes == 0


def test_write_that_may_take_half_gets_half_once(data_disk: MemoryDisk, reserve: Reserve) -> None:
    assert reserve.give_up(Share.HALF)
    assert in_file(data_disk) == reserve.held_bytes == SIZE_BYTES // 2
    assert not reserve.give_up(Share.HALF)
    assert in_file(data_disk) == SIZE_BYTES // 2


def test_write_that_may_take_all_gets_one_half_and_then_the_other(data_disk: MemoryDisk, reserve: Reserve) -> None:
    assert reserve.give_up(Share.ALL)
    assert reserve.held_bytes == SIZE_BYTES // 2
    assert reserve.give_up(Share.ALL)
    assert in_file(data_disk) == reserve.held_bytes == 0
    assert not reserve.give_up(Share.ALL)


def test_write_that_may_take_nothing_gets_nothing(data_disk: MemoryDisk, reserve: Reserve) -> None:
    assert not reserve.give_up(Share.NONE)
    assert in_file(data_disk) == SIZE_BYTES


def test_what_was_given_up_is_taken_again_as_a_whole(data_disk: MemoryDisk, reserve: Reserve) -> None:
    reserve.give_up(Share.HALF)
    assert reserve.missing_bytes == SIZE_BYTES // 2
    reserve.take()
    assert in_file(data_disk) == reserve.held_bytes == SIZE_BYTES


def test_reserve_of_an_earlier_process_counts(data_disk: MemoryDisk, reserve: Reserve) -> None:
    reserve.give_up(Share.HALF)
    assert Reserve(data_disk, "/data", SIZE_BYTES).held_bytes == SIZE_BYTES // 2
