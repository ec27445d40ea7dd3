"""How much memory a process holds, as Linux counts it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes(pid: int) -> int:
    """Of the process, and of those that it has started; 0 where it is gone."""
    total = 0
    with suppress(OSError):
        total = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(map(resident_bytes, map(int, (task / "children").read_text().split())))
    return total
