"""What is said of a partition whose files are not what was written."""

from __future__ import annotations

from oncelog.environment import DiskError


class DamagedLogError(DiskError):
    """Names the file and the offset. It is about one partition: the disk answers, and the others may be whole."""
