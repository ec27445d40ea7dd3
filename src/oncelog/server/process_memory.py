"""The memory of a broker's process: the freed memory that it keeps, and garbage collections that stay short."""

from __future__ import annotations

import gc
import time

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc's malloc.h."""
KEPT_BYTES_MAX = 16 * 1024 * 1024
ALWAYS_GIVEN_BACK_BYTES = 4 * 1024 * 1024
"""A block so large has a mapping of its own: it would leave too large a hole."""


def keep_freed_memory() -> None:
    """Keep up to 16 MiB for the next answers. For a process of the broker's own; has no effect without glibc.

    The answer to a Fetch takes a megabyte for each partition and frees it a moment later. By default glibc gives so much back
    to the operating system at once, and takes it again, page by page, for the next answer. Reading 0.8 GB in answers of a
    megabyte took 0.14 s of the processor with this, and 0.22 s without.
    """
    # Not imported at start, which needs it for nothing.
    import ctypes

    adjust = getattr(ctypes.CDLL(None), "mallopt", None)
    if adjust is not None:
        adjust(TRIM_THRESHOLD, KEPT_BYTES_MAX)
        adjust(MMAP_THRESHOLD, ALWAYS_GIVEN_BACK_BYTES)


def give_back_freed_memory() -> None:
    """Give back freed memory that lies below a block in use, too. By itself glibc never does.

    After 250 MB of answers the process had 45 MB in one run, and 270 MB in the next; now it has 45 MB.
    """
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


LONG_MS = 2
THRESHOLDS = (700, 10, 2)
"""With Python's own, a full collection would first look at 70,000 objects."""


class ShortCollections:
    """Keeps full collections of garbage short, however much the broker keeps.

    A full collection looks at everything that has lived for a while: with ten thousand partitions a pause of a quarter of a
    second. Objects that survive a long collection are therefore not looked at again; nor are those from before `begin`.
    """

    def __init__(self) -> None:
        self._began_s = 0.0

    def begin(self) -> None:
        """From now on; what was made so far lives as long as the process."""
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)
        gc.callbacks.append(self._collecting)
        gc.enable()

    def _collecting(self, phase: str, found: dict[str, int]) -> None:
        if found["generation"] < 2:
            return
        if phase == "start":
            self._began_s = time.perf_counter()
        elif time.perf_counter() - self._began_s >= LONG_MS / 1000:
            gc.freeze()
