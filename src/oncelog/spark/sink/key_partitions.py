"""The Java client's partitioner for a whole column of keys."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

NO_KEY = -1


def key_partitions(keys: pa.Array, partition_count: int) -> NDArray[np.int32]:
    """The partition of each key, of binary or string: murmur2 as the Java client computes it; -1 where there is no key."""
    array = keys.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    positions = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    found = np.empty(len(array), np.int32)
    _compiled()(positions, content, partition_count, found)
    if array.null_count:
        found[np.asarray(array.is_null())] = NO_KEY
    return found


def _loop(positions: Any, content: Any, partition_count: int, found: Any) -> None:
    multiplier = np.uint32(0x5BD1E995)
    for row in range(found.shape[0]):
        start = positions[row]
        length = positions[row + 1] - start
        hashed = np.uint32(0x9747B28C) ^ np.uint32(length)
        words = length // 4
        for word_number in range(words):
            at = start + word_number * 4
            word = (
                np.uint32(content[at])
                | np.uint32(content[at + 1]) << np.uint32(8)
                | np.uint32(content[at + 2]) << np.uint32(16)
                | np.uint32(content[at + 3]) << np.uint32(24)
            )
            word = np.uint32(word * multiplier)
            word ^= word >> np.uint32(24)
            word = np.uint32(word * multiplier)
            hashed = np.uint32(hashed * multiplier) ^ word
        at = start + words * 4
        rest = length - words * 4
        if rest == 3:
            hashed ^= np.uint32(content[at + 2]) << np.uint32(16)
        if rest >= 2:
            hashed ^= np.uint32(content[at + 1]) << np.uint32(8)
        if rest >= 1:
            hashed ^= np.uint32(content[at])
            hashed = np.uint32(hashed * multiplier)
        hashed ^= hashed >> np.uint32(13)
        hashed = np.uint32(hashed * multiplier)
        hashed ^= hashed >> np.uint32(15)
        found[row] = np.int32(np.int64(hashed & np.uint32(0x7FFFFFFF)) % partition_count)


@cache
def _compiled() -> Callable[..., None]:
    # Numba takes 0.3 s to import, and a driver whose tasks place the keys does not need it.
    from numba import njit

    try:
        compiled: Callable[..., None] = njit(cache=True, nogil=True)(_loop)
    except RuntimeError:
        # Numba found no directory to cache in: a read-only installation, and no home directory.
        compiled = njit(nogil=True)(_loop)
    return compiled
