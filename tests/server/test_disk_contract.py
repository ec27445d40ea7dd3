"""What every Disk does: the machine's own, also where one file may be open at a time, and the one in memory that the tests of
the log and the broker lean on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.memory_disk import MemoryDisk
from oncelog.environment import DirectoryInUseError, Disk, DiskError, DiskFullError, File, Share
from oncelog.server.disk import RealDisk
from oncelog.server.files import VECTOR_CHUNKS_MAX


def on_this_thread(callback):
    callback()


@pytest.fixture(params=["real", "one open file", "memory"])
def disk(request) -> Iterator[Disk]:
    if request.param == "memory":
        yield MemoryDisk()
    else:
        with RealDisk(on_this_thread, pytest.fail, 1 if request.param == "one open file" else None) as real:
            yield real


@pytest.fixture
def directory(disk, tmp_path) -> str:
    path = f"{tmp_path}/data"
    disk.make_directory(path)
    return path


@pytest.fixture
def file(disk, directory) -> File:
    return disk.open(f"{directory}/file", create=True)


def wait_for(begin) -> DiskError | None:
    """Call `begin` with a callback, and wait for what it is called with."""
    called, outcome = threading.Event(), []

    def done(error):
        outcome.append(error)
        called.set()

    begin(done)
    assert called.wait(30)
    return outcome[0]


def test_append_returns_where_it_began_and_the_size_grows(file):
    assert file.append([b"ab", memoryview(b"cd"), bytearray(b"e")]) == 0
    assert file.append([b"fg"]) == 5
    assert file.size_bytes == 7
    assert file.read(0, 100) == b"abcdefg"


def test_append_of_nothing_changes_nothing(file):
    file.append([b"ab"])
    assert file.append([]) == 2
    assert file.append([b""]) == 2
    assert file.size_bytes == 2


def test_append_takes_more_chunks_than_one_system_call_does(file):
    chunks = [b"%04d" % number for number in range(2 * VECTOR_CHUNKS_MAX)]
    file.append(chunks)
    assert file.read(0, file.size_bytes) == b"".join(chunks)


def test_write_back_changes_nothing_and_does_not_mind_a_file_that_is_closed(file):
    file.append([b"0123456789"])
    file.write_back(0, 10)
    file.truncate(5)
    file.append([b"abc"])
    file.write_back(5, 3)
    assert file.read(0, 100) == b"01234abc"
    file.close()
    file.write_back(0, 8)


def test_read_gives_less_only_at_the_end(file):
    file.append([b"0123456789"])
    assert file.read(3, 4) == b"3456"
    assert file.read(8, 4) == b"89"
    assert file.read(10, 4) == b""
    assert file.read(20, 4) == b""


def test_write_overwrites_and_extends(file):
    file.append([b"0123456789"])
    file.write(2, b"xx")
    file.write(9, bytearray(b"yyy"))
    assert file.read(0, 100) == b"01xx45678yyy"
    assert file.size_bytes == 12


def test_write_beyond_the_end_leaves_zeros_before_it(file):
    file.write(3, b"x")
    assert file.read(0, 100) == b"\0\0\0x"


def test_truncate_cuts_and_the_next_append_goes_there(file):
    file.append([b"0123456789"])
    file.truncate(4)
    assert file.size_bytes == 4
    assert file.append([b"x"]) == 4
    assert file.read(0, 100) == b"0123x"


def test_truncate_to_more_fills_with_zeros(file):
    file.append([b"ab"])
    file.truncate(4)
    assert file.read(0, 100) == b"ab\0\0"


def test_file_opened_again_has_its_size_and_its_bytes(disk, file):
    file.append([b"abc"])
    file.sync()
    file.close()
    again = disk.open(file.path)
    assert (again.path, again.size_bytes, again.read(0, 10)) == (file.path, 3, b"abc")
    assert disk.open(file.path, create=True).size_bytes == 3


def test_absent_file_is_an_error_unless_it_is_to_be_made(disk, directory):
    with pytest.raises(DiskError, match="absent"):
        disk.open(f"{directory}/absent")
    with pytest.raises(DiskError, match="absent"):
        disk.read_file(f"{directory}/absent")
    assert not disk.exists(f"{directory}/absent")
    disk.open(f"{directory}/absent", create=True)
    assert disk.exists(f"{directory}/absent")


def test_directory_lists_its_names_sorted_and_no_deeper(disk, directory):
    disk.make_directory(f"{directory}/t-1/deep")
    disk.make_directory(f"{directory}/t-1")
    for name in ("b", "a", "t-1/inside"):
        disk.open(f"{directory}/{name}", create=True)
    assert disk.list_directory(directory) == ["a", "b", "t-1"]
    assert disk.list_directory(f"{directory}/t-1") == ["deep", "inside"]
    with pytest.raises(DiskError):
        disk.list_directory(f"{directory}/absent")


def test_renamed_directory_takes_its_files_along_and_open_ones_stay_open(disk, directory):
    disk.make_directory(f"{directory}/old")
    file = disk.open(f"{directory}/old/file", create=True)
    disk.rename(f"{directory}/old", f"{directory}/new")
    file.append([b"x"])
    assert disk.read_file(f"{directory}/new/file") == b"x"
    assert not disk.exists(f"{directory}/old")


def test_many_files_are_used_in_turn_and_each_has_its_own_bytes(disk, directory):
    files = [disk.open(f"{directory}/{number}", create=True) for number in range(20)]
    for turn in range(3):
        for number, file in enumerate(files):
            file.append([b"%d-%d " % (turn, number)])
    for number, file in enumerate(files):
        assert file.read(0, 100) == b"0-%d 1-%d 2-%d " % (number, number, number)
    assert wait_for(lambda done: disk.sync(files, done)) is None


def test_renamed_file_is_found_after_others_were_used(disk, directory):
    disk.make_directory(f"{directory}/old")
    files = [disk.open(f"{directory}/old/{number}", create=True) for number in range(5)]
    for number, file in enumerate(files):
        file.append([b"%d" % number])
    disk.rename(f"{directory}/old/1", f"{directory}/old/one")
    disk.rename(f"{directory}/old", f"{directory}/new")
    assert [file.read(0, 10) for file in files] == [b"0", b"1", b"2", b"3", b"4"]
    assert disk.list_directory(f"{directory}/new") == ["0", "2", "3", "4", "one"]


def test_rename_takes_the_place_of_what_was_there(disk, directory):
    disk.replace_file(f"{directory}/a", b"a")
    disk.replace_file(f"{directory}/b", b"b")
    disk.rename(f"{directory}/a", f"{directory}/b")
    assert disk.list_directory(directory) == ["b"]
    assert disk.read_file(f"{directory}/b") == b"a"


def test_directory_does_not_take_the_place_of_one_with_files(disk, directory):
    for name in ("a", "b"):
        disk.make_directory(f"{directory}/{name}")
        disk.open(f"{directory}/{name}/file", create=True).append([b"x"])
    with pytest.raises(DiskError, match="not empty"):
        disk.rename(f"{directory}/a", f"{directory}/b")


def test_name_has_255_bytes_at_most(disk, directory):
    longest = "x" * 255
    disk.make_directory(f"{directory}/{longest}")
    disk.open(f"{directory}/{longest}/{longest}", create=True).append([b"x"])
    too_long = f"{directory}/{longest}/{longest}x"
    with pytest.raises(DiskError, match="too long"):
        disk.make_directory(too_long)
    with pytest.raises(DiskError, match="too long"):
        disk.open(too_long, create=True)
    with pytest.raises(DiskError, match="too long"):
        disk.rename(f"{directory}/{longest}/{longest}", too_long)


def test_rename_of_nothing_is_an_error(disk, directory):
    with pytest.raises(DiskError, match="absent"):
        disk.rename(f"{directory}/absent", f"{directory}/x")


def test_removed_directory_is_gone_with_all_that_is_in_it(disk, directory):
    disk.make_directory(f"{directory}/t")
    disk.open(f"{directory}/t/file", create=True)
    disk.open(f"{directory}/t2", create=True)
    disk.remove(f"{directory}/t")
    assert disk.list_directory(directory) == ["t2"]
    disk.remove(f"{directory}/t2")
    disk.remove(f"{directory}/never-there")
    assert disk.list_directory(directory) == []


def test_replaced_file_has_the_new_bytes_and_leaves_nothing_beside_it(disk, directory):
    for data in (b"long old bytes", b"new"):
        disk.replace_file(f"{directory}/f", data)
        assert disk.read_file(f"{directory}/f") == data
    assert disk.list_directory(directory) == ["f"]


def test_sync_reports_back_once_every_file_is_durable(disk, directory):
    files = [disk.open(f"{directory}/{number}", create=True) for number in range(5)]
    for file in files:
        file.append([b"x"])
    assert wait_for(lambda done: disk.sync(files, done)) is None
    assert wait_for(lambda done: disk.sync([], done)) is None


def test_background_work_is_done_before_it_reports_back(disk, directory):
    assert wait_for(lambda done: disk.in_background(lambda: disk.replace_file(f"{directory}/f", b"x"), done)) is None
    assert disk.read_file(f"{directory}/f") == b"x"


def test_background_work_that_fails_reports_its_error(disk, directory):
    error = wait_for(lambda done: disk.in_background(lambda: disk.read_file(f"{directory}/absent"), done))
    assert isinstance(error, DiskError)


def test_lock_is_had_once_until_it_is_released(disk, directory):
    lock = disk.lock(f"{directory}/.lock")
    with pytest.raises(DirectoryInUseError):
        disk.lock(f"{directory}/.lock")
    lock.release()
    disk.lock(f"{directory}/.lock").release()


def test_boot_id_stays_the_same_while_the_machine_runs(disk):
    assert disk.boot_id() == disk.boot_id() != ""


def test_modified_time_is_that_of_the_last_write(disk, file):
    file.append([b"x"])
    first_ms = disk.modified_ms(file.path)
    file.append([b"y"])
    assert disk.modified_ms(file.path) >= first_ms


POSITIONS = st.integers(0, 40)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.binary(max_size=10), max_size=3)),
        st.tuples(st.just("write"), POSITIONS, st.binary(max_size=10)),
        st.tuples(st.just("truncate"), POSITIONS),
        st.tuples(st.just("read"), POSITIONS, st.integers(0, 40)),
        st.tuples(st.just("reopen")),
    ),
    max_size=25,
)


@given(operations=OPERATIONS, open_files_max=st.sampled_from([None, 1]))
@settings(max_examples=60)
def test_both_disks_do_the_same_whatever_is_asked(operations, open_files_max):
    with TemporaryDirectory() as path, RealDisk(on_this_thread, pytest.fail, open_files_max) as real:
        memory = MemoryDisk()
        memory.make_directory(path)
        assert list(outcomes(real, path, operations)) == list(outcomes(memory, path, operations))
        assert Path(f"{path}/file").read_bytes() == memory.read_file(f"{path}/file")


def outcomes(disk: Disk, path: str, operations: list[tuple]) -> Iterator[object]:
    file = disk.open(f"{path}/file", create=True)
    # Used in between, so that where one file may be open the other is closed and opened again all the time.
    other = disk.open(f"{path}/other", create=True)
    for name, *arguments in operations:
        if name == "reopen":
            file.close()
            file = disk.open(f"{path}/file")
        else:
            yield getattr(file, name)(*arguments)
        yield file.size_bytes
        other.append([b"x"])
    yield other.read(0, 100)
    other.close()
    file.close()


def test_allocated_file_has_its_size_and_goes_with_its_last_byte(disk, directory):
    path = f"{directory}/reserve"
    for size_bytes in (8192, 4096, 65536):
        disk.allocate(path, size_bytes)
        assert len(disk.read_file(path)) == size_bytes
    disk.allocate(path, 0)
    assert not disk.exists(path)
    disk.allocate(path, 0)


def put_another_in_its_place(disk: Disk, path: str) -> None:
    disk.open(f"{path}.new", create=True).append([b"new"])
    disk.rename(f"{path}.new", path)


WAYS_TO_TAKE_IT_AWAY = {
    "the file is removed": lambda disk, directory: disk.remove(f"{directory}/t/deep/file"),
    "its directory is removed": lambda disk, directory: disk.remove(f"{directory}/t/deep"),
    "the directory above is removed": lambda disk, directory: disk.remove(f"{directory}/t"),
    "another file is renamed to it": lambda disk, directory: put_another_in_its_place(disk, f"{directory}/t/deep/file"),
    "it is replaced": lambda disk, directory: disk.replace_file(f"{directory}/t/deep/file", b"new"),
    "its directory is renamed and removed": lambda disk, directory: (
        disk.rename(f"{directory}/t", f"{directory}/t-delete"),
        disk.remove(f"{directory}/t-delete"),
    ),
}


@pytest.mark.parametrize("was_there", [True, False], ids=["an earlier file", "a new file"])
@pytest.mark.parametrize("take_away", WAYS_TO_TAKE_IT_AWAY.values(), ids=WAYS_TO_TAKE_IT_AWAY)
def test_file_that_this_process_took_away_is_synced_without_a_complaint(disk, directory, take_away, was_there):
    path = f"{directory}/t/deep/file"
    disk.make_directory(f"{directory}/t")
    disk.make_directory(f"{directory}/t/deep")
    if was_there:
        disk.replace_file(path, b"earlier")
    file = disk.open(path, create=True)
    if not was_there:
        file.append([b"ab"])
    other = disk.open(f"{directory}/other", create=True)
    take_away(disk, directory)
    assert wait_for(lambda done: disk.sync([file, other], done)) is None
    other.append([b"so that it has a descriptor"])
    file.close()
    assert wait_for(lambda done: disk.sync([file, other], done)) is None


def test_file_in_a_directory_below_one_that_is_renamed_is_found_again(disk, directory):
    disk.make_directory(f"{directory}/old")
    disk.make_directory(f"{directory}/old/deep")
    file = disk.open(f"{directory}/old/deep/file", create=True)
    file.append([b"ab"])
    disk.rename(f"{directory}/old", f"{directory}/new")
    other = disk.open(f"{directory}/other", create=True)
    other.append([b"x"])
    file.append([b"cd"])
    assert wait_for(lambda done: disk.sync([file, other], done)) is None
    assert disk.read_file(f"{directory}/new/deep/file") == b"abcd"


def test_room_that_is_kept_is_for_writes_that_may_take_some_of_it(disk, directory, file):
    disk.keep_room_in([directory])
    for write in (lambda: file.append([b"x"], Share.NONE), lambda: file.write(0, b"x", Share.NONE)):
        with pytest.raises(DiskFullError, match=r"(?i)no space left"):
            write()
    assert file.append([b"ab"], Share.HALF) == 0
    disk.keep_room_in([])
    assert file.append([b"c"], Share.NONE) == 2
    assert file.read(0, 10) == b"abc"
