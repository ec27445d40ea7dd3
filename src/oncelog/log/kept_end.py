"""The end of a segment, kept in memory for whoever makes it durable next."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import Buffer

KEPT_BYTES_MAX = 16 * 1024
"""What is larger is about as fast to read from the file again as it was to keep."""


class KeptEnd:
    """The batches that were written last, from one position to another without a gap; nothing at first."""

    __slots__ = ("_chunks", "_end", "_start")

    def __init__(self) -> None:
        self._chunks: list[Buffer] = []
        self._start = self._end = -1

    def keep(self, chunks: Sequence[Buffer], size_bytes: int, end: int) -> None:
        """Keep a batch that ends at `end`, if it is small. What does not reach up to it, or would be too much, goes."""
        if size_bytes > KEPT_BYTES_MAX:
            return
        if self._end != end - size_bytes or end - self._start > KEPT_BYTES_MAX:
            self._chunks = []
            self._start = end - size_bytes
        self._chunks += chunks
        self._end = end

    def between(self, start: int, end: int) -> bytes | None:
        """The bytes from `start` to `end`, where the segment ends; None if they are not all here."""
        if self._end != end or self._start > start:
            return None
        return b"".join(self._chunks)[start - self._start :]

    def forget(self) -> None:
        self._chunks = []
        self._start = self._end = -1
