"""A file system of its own for a directory, which is full when a test says so."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

SIZE_BYTES = 4 << 30
FULL_TRIES = 20


class SmallDisk:
    """In memory. Whether it may be mounted depends on the user, and on the machine."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.mkdir(parents=True, exist_ok=True)

    def mount(self) -> bool:
        """Say whether that was allowed."""
        return _mount("-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "none", self.path)

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", str(self.path)], check=True)

    def be_full(self) -> None:
        """From now on there is as much room as is taken, give or take what is written just now."""
        for _ in range(FULL_TRIES):
            found = os.statvfs(self.path)
            if _mount("-o", f"remount,size={(found.f_blocks - found.f_bfree) * found.f_frsize}", self.path):
                return
        raise AssertionError(f"{self.path} was written to all the time, and is not full")

    def have_room(self) -> None:
        assert _mount("-o", f"remount,size={SIZE_BYTES}", self.path)


def _mount(*arguments: str | Path) -> bool:
    if shutil.which("mount") is None:
        return False
    done = subprocess.run(["mount", *map(str, arguments)], capture_output=True, check=False)
    return done.returncode == 0
