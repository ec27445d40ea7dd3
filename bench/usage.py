"""What a process has used, as the kernel counts it: all its threads, and the children it has waited for."""

from __future__ import annotations

import os
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
UTIME, CSTIME = 11, 15
"""Places in /proc/PID/stat after the name, from utime to cstime (man 5 proc: fields 14 to 17)."""


def cpu_seconds(pid: int) -> float:
    """User and system time since the process started, to a hundredth of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[UTIME:CSTIME])) / TICKS_PER_SECOND


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
