"""The threads that make files durable: nobody waits for ever, whatever becomes of a file."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from oncelog.environment import DiskError
from oncelog.server import sync_threads
from oncelog.server.disk import RealDisk
from oncelog.server.files import OpenFiles, RealFile
from oncelog.server.sync_threads import SYNC_FILE_RANGE_WRITE, _sync_file_range


class Outcomes:
    """What the threads report, in the order it comes."""

    def __init__(self) -> None:
        self.bugs: list[BaseException] = []
        self.finished = threading.Semaphore(0)
        self.errors: list[DiskError | None] = []

    def bug(self, error: BaseException) -> None:
        self.bugs.append(error)
        self.finished.release()

    def done(self, error: DiskError | None) -> None:
        self.errors.append(error)
        self.finished.release()

    def wait(self) -> None:
        assert self.finished.acquire(timeout=30), "nobody was told"


@pytest.fixture
def outcomes():
    return Outcomes()


@pytest.fixture
def disk(outcomes):
    with RealDisk(lambda callback: callback(), outcomes.bug) as made:
        yield made


def test_sync_of_a_file_that_was_closed_meanwhile_is_done(disk, outcomes, tmp_path):
    """Two callers may wait for one file, and the first to be served may close it."""
    file = disk.open(str(tmp_path / "snapshot"), create=True)
    file.append([b"data"])
    file.close()
    for _ in range(8):
        disk.sync([file], outcomes.done)
        outcomes.wait()
    assert outcomes.errors == [None] * 8
    assert outcomes.bugs == []


class RefusedThread(threading.Thread):
    def start(self) -> None:
        raise RuntimeError("can't start new thread")


def test_file_is_made_durable_by_the_caller_where_the_machine_has_no_thread(disk, outcomes, tmp_path, monkeypatch):
    monkeypatch.setattr(sync_threads.threading, "Thread", RefusedThread)
    file = disk.open(str(tmp_path / "whole"), create=True)
    file.append([b"data"])
    disk.sync([file], outcomes.done)
    outcomes.wait()
    disk.in_background(lambda: None, outcomes.done)
    outcomes.wait()
    disk.sync_all([file])
    assert outcomes.errors == [None, None]
    assert outcomes.bugs == []


class BrokenFile(RealFile):
    def sync(self) -> None:
        raise ValueError("not an error of the disk")


def test_error_that_no_disk_makes_is_reported_and_the_thread_goes_on(disk, outcomes, tmp_path):
    files = OpenFiles(100, disk.sync)
    for number in range(8):
        disk.sync([BrokenFile(files, str(tmp_path / f"broken-{number}"), create=True)], outcomes.done)
        outcomes.wait()
    assert [str(bug) for bug in outcomes.bugs] == ["not an error of the disk"] * 8
    file = disk.open(str(tmp_path / "whole"), create=True)
    disk.sync([file], outcomes.done)
    outcomes.wait()
    assert outcomes.errors == [None]


def test_file_that_is_closed_while_it_is_synced_is_no_error_of_the_disk(disk, outcomes, tmp_path):
    for number in range(300):
        file = disk.open(str(tmp_path / f"{number % 7}"), create=True)
        file.append([b"data"])
        disk.sync([file], outcomes.done)
        file.close()
    for _ in range(300):
        outcomes.wait()
    assert outcomes.errors == [None] * 300
    assert outcomes.bugs == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the system call")
def test_linux_takes_the_call_for_any_range_of_a_file(tmp_path):
    call = _sync_file_range()
    assert call is not None
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(descriptor, bytes(10_000), 5_000_000_000)
        assert call(descriptor, 5_000_000_000, 10_000, SYNC_FILE_RANGE_WRITE) == 0
    finally:
        os.close(descriptor)
    assert call(-1, 0, 1, SYNC_FILE_RANGE_WRITE) == -1
