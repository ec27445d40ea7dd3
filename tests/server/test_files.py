"""Files within a budget of descriptors: which are closed, and what is durable before."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from oncelog.environment import DiskError, Syncable
from oncelog.server.files import OpenFiles, RealFile

OPEN_MAX = 8


class Syncer:
    """Stands for the threads: syncs when it is told to."""

    def __init__(self) -> None:
        self.asked: list[Syncable] = []
        self._done: Callable[[DiskError | None], None] | None = None

    def request(self, files: Sequence[Syncable], done: Callable[[DiskError | None], None]) -> None:
        assert self._done is None, "one at a time"
        self.asked = list(files)
        self._done = done

    def work(self, error: DiskError | None = None) -> None:
        done, self._done = self._done, None
        for file in self.asked:
            file.sync()
        assert done is not None
        done(error)


class Descriptors:
    """Which files of one directory were made durable."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
        self.synced: list[str] = []
        self._directory = directory
        self._sync = os.fdatasync
        monkeypatch.setattr(os, "fdatasync", self._note)

    def _note(self, descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.parent == self._directory:
            self.synced.append(path.name)
        self._sync(descriptor)


@pytest.fixture
def syncer() -> Syncer:
    return Syncer()


@pytest.fixture
def files(syncer) -> OpenFiles:
    return OpenFiles(OPEN_MAX, syncer.request)


@pytest.fixture
def synced(monkeypatch, tmp_path) -> list[str]:
    return Descriptors(monkeypatch, tmp_path).synced


def make(files: OpenFiles, directory: object, count: int) -> list[RealFile]:
    return [RealFile(files, f"{directory}/{number:02}", create=True) for number in range(count)]


def descriptors_below(directory: Path) -> int:
    """How many descriptors this process has of files there; other threads open and close others."""
    found = 0
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            found += directory in Path(os.readlink(f"/proc/self/fd/{descriptor}")).parents
    return found


def test_no_more_files_are_open_than_the_budget_allows(files, tmp_path):
    made = make(files, tmp_path, 5 * OPEN_MAX)
    for file in made:
        file.append([b"x"])
    assert 0 < descriptors_below(tmp_path) == files.count <= OPEN_MAX
    assert [file.read(0, 10) for file in made] == [b"x"] * len(made)
    assert 0 < descriptors_below(tmp_path) == files.count <= OPEN_MAX
    for file in made:
        file.close()
    assert descriptors_below(tmp_path) == 0


def test_file_is_not_closed_before_what_was_written_to_it_is_durable(files, synced, tmp_path):
    """An error of writing back may be told to nobody once the descriptor is closed."""
    written = make(files, tmp_path, 1)[0]
    written.append([b"x"])
    written.sync()
    written.append([b"y"])
    del synced[:]
    make(files, tmp_path / "..", 2 * OPEN_MAX)
    assert synced.count("00") >= 1
    assert written.read(0, 10) == b"xy"


def test_three_quarters_of_the_budget_begin_a_sync_of_what_was_written(files, syncer, synced, tmp_path):
    made = make(files, tmp_path, OPEN_MAX * 3 // 4)
    assert syncer.asked == []
    made.append(RealFile(files, f"{tmp_path}/more", create=True))
    assert made[0] in syncer.asked
    syncer.work()
    del synced[:]
    RealFile(files, f"{tmp_path}/and more", create=True)
    RealFile(files, f"{tmp_path}/and more still", create=True)
    assert synced == [], "nobody has to wait for the disk"
    assert files.count <= OPEN_MAX


def test_sync_that_fails_is_told(files, syncer, tmp_path):
    make(files, tmp_path, OPEN_MAX - 1)
    with pytest.raises(DiskError, match="broken"):
        syncer.work(DiskError("broken"))


def test_sync_that_fails_is_not_the_last_one(files, syncer, tmp_path):
    made = make(files, tmp_path, OPEN_MAX - 1)
    del syncer.asked[:]
    with pytest.raises(DiskError, match="broken"):
        syncer.work(DiskError("broken"))
    RealFile(files, f"{tmp_path}/more", create=True)
    assert made[0] in syncer.asked


def test_file_that_is_used_again_and_again_stays_open(files, tmp_path):
    kept = RealFile(files, f"{tmp_path}/kept", create=True)
    kept.sync()
    opened: list[str] = []
    open_ = files.open
    files.open = lambda path, flags: opened.append(path) or open_(path, flags)  # type: ignore[func-returns-value,method-assign]
    for number in range(4 * OPEN_MAX):
        file = RealFile(files, f"{tmp_path}/{number}", create=True)
        file.sync()
        kept.read(0, 1)
    assert kept.path not in opened


def test_sync_of_what_an_earlier_process_wrote_reaches_the_disk_although_the_file_is_closed_meanwhile(
    files, synced, tmp_path
):
    (tmp_path / "earlier").write_bytes(b"x")
    earlier = RealFile(files, f"{tmp_path}/earlier", create=False)
    for file in make(files, tmp_path, 2 * OPEN_MAX):
        file.sync()
    earlier.sync()
    assert synced[-1] == "earlier"
    earlier.sync()
    assert synced.count("earlier") == 1


def test_process_without_descriptors_gives_up_a_file_for_another(files, monkeypatch, tmp_path):
    first, second = make(files, tmp_path, 2)
    first.append([b"x"])
    open_ = os.open
    refused = iter([True])

    def scarce(*arguments: object, **more: object) -> int:
        if next(refused, False):
            raise OSError(errno.EMFILE, "Too many open files")
        return open_(*arguments, **more)

    monkeypatch.setattr(os, "open", scarce)
    RealFile(files, f"{tmp_path}/third", create=True)
    assert files.count == 2
    assert (first.read(0, 10), second.read(0, 10)) == (b"x", b"")


def test_file_that_is_closed_is_used_no_more(files, tmp_path):
    file = make(files, tmp_path, 1)[0]
    file.close()
    with pytest.raises(DiskError, match="closed"):
        file.read(0, 1)


def test_file_that_somebody_else_removed_is_not_said_to_be_durable(files, tmp_path):
    (file,) = make(files, tmp_path, 1)
    file.append([b"ab"])
    os.unlink(file.path)
    with pytest.raises(DiskError, match="was removed by somebody else") as raised:
        file.sync()
    assert raised.value.path == file.path


def test_file_is_synced_while_its_directory_gets_another_name(files, tmp_path, monkeypatch):
    """The thread that syncs it must not look for the directory by its old name once that is gone."""
    os.mkdir(tmp_path / "old")
    (file,) = make(files, tmp_path / "old", 1)
    file.append([b"ab"])
    errors: list[DiskError] = []

    def sync() -> None:
        try:
            file.sync()
        except DiskError as error:
            errors.append(error)

    thread = threading.Thread(target=sync)
    replace = os.replace

    def replace_and_sync(source: str, target: str) -> None:
        replace(source, target)
        thread.start()
        thread.join(0.2)

    monkeypatch.setattr(os, "replace", replace_and_sync)
    files.paths.rename(f"{tmp_path}/old", f"{tmp_path}/new")
    thread.join()
    assert errors == []
    assert file.path == f"{tmp_path}/new/00"


def test_file_in_whose_place_is_another_one_is_not_opened_again(files, tmp_path):
    (file,) = make(files, tmp_path, 1)
    file.append([b"ab"])
    file.sync()
    file.release()
    os.rename(file.path, f"{file.path}.old")
    (tmp_path / os.path.basename(file.path)).write_bytes(b"ab")
    with pytest.raises(DiskError, match="is another file than it was"):
        file.append([b"cd"])
