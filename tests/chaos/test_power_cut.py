"""The power is cut under a transactional load, on a file system of its own: what was not synced is gone, journal and all.

The file system is ext4 in a file. The broker is made to stand still, the file system is told to shut down without flushing its
journal (EXT4_IOC_SHUTDOWN), the broker is killed, and what the file then has is mounted again. The next broker sees another boot
id, as after a real power cut.

A broker that went on meanwhile would answer what is lost: fdatasync that is under way when the file system shuts down may say
that all is well, although the journal will never have it (6 of 100 shutdowns with three writers, Linux 6.18).
`tests/chaos/rounds.py` says what has to be so. ONCELOG_SEED and ONCELOG_POWER_CUTS choose another run. Where nothing may be
mounted, power cuts on a disk in memory remain: `tests/broker/test_random_crashes.py`, `oncelog simulate`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.oncelog_process import OncelogNode
from harness.requirements import NOT_RUN
from harness.waiting import until
from tests.chaos.rounds import run_rounds

SEED = int(os.environ.get("ONCELOG_SEED", "1"))
CUTS = int(os.environ.get("ONCELOG_POWER_CUTS", "5"))
SIZE_BYTES = 512 * 1024 * 1024
EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = struct.pack("I", 2)
STOPPED_OR_UNINTERRUPTIBLE = ("T", "t", "D")
"""The states of a thread in man 5 proc_pid_stat."""
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Volume:
    """A file system in a file."""

    def __init__(self, directory: Path) -> None:
        self._image, self.path = directory / "image", directory / "volume"
        self.path.mkdir()
        with open(self._image, "wb") as image:
            image.truncate(SIZE_BYTES)
        run("mkfs.ext4", "-q", "-F", str(self._image))

    def mount(self) -> None:
        run("mount", "-o", "loop", str(self._image), str(self.path))

    def unmount(self) -> None:
        run("umount", str(self.path))

    def cut(self) -> None:
        """From now on nothing reaches the file, not even what was written and not synced."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, NO_LOG_FLUSH)
        finally:
            os.close(descriptor)


class NodeOnVolume(OncelogNode):
    """A broker whose data is on a volume, and whose machine is started again with every power cut."""

    def __init__(self, directory: Path, volume: Volume) -> None:
        super().__init__(directory)
        self._volume, self._boot_id = volume, directory / "boot_id"
        self.data_directory = volume.path / "data"
        self._where = ["--data-dir", str(self.data_directory)]
        self._boot_id.write_text(f"{uuid.uuid4()}\n")

    def command(self) -> list[str]:
        mount = f'mount --bind {self._boot_id} {BOOT_ID} && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", mount, "sh", *super().command()]

    def cut_power(self) -> None:
        self.suspend()
        until(self._stands_still)
        self._volume.cut()
        self.kill()
        self._volume.unmount()
        self._volume.mount()
        self._boot_id.write_text(f"{uuid.uuid4()}\n")

    def _stands_still(self) -> bool:
        """Every thread is stopped, or in the middle of a call into the system, from which it does not come back."""
        try:
            stats = [task.read_text() for task in Path(f"/proc/{self.pid}/task").glob("*/stat")]
        except (FileNotFoundError, ProcessLookupError):
            return False  # a thread has just ended
        return all(stat.rpartition(")")[2].split()[0] in STOPPED_OR_UNINTERRUPTIBLE for stat in stats)


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    missing = [name for name in ("mkfs.ext4", "mount", "umount", "unshare") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{NOT_RUN}there is no {missing[0]}")
    made = Volume(tmp_path)
    try:
        made.mount()
    except subprocess.CalledProcessError as error:
        # A container may not, whoever runs it.
        pytest.skip(f"{NOT_RUN}a file system in a file cannot be mounted: {error.stderr.decode().strip()}")
    yield made
    made.unmount()


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_answered_commit_survives_a_power_cut(volume, tmp_path, summary):
    node = NodeOnVolume(tmp_path / "node", volume)
    try:
        node.start()
        settled = run_rounds(node, CUTS, SEED, node.cut_power)
    finally:
        node.kill()
    summary(f"seed {SEED}, {CUTS} power cuts: " + ", ".join(f"{n} {kind.name}" for kind, n in settled.items()))
