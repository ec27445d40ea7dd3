"""Log start offset, log end offset, high watermark and last stable offset of one log."""

from __future__ import annotations

from oncelog.log.producers import Producers


class LogOffsets:
    """`last_stable` <= `high_watermark` <= `end`. `last_stable` never goes back, but with the end of a log that is cut off.

    `durable_start` <= `start`: after a power cut the log begins there, or later.
    """

    __slots__ = ("_producers", "durable_start", "end", "high_watermark", "last_stable", "start")

    def __init__(self, start: int, end: int, producers: Producers) -> None:
        self._producers = producers
        self.start = self.durable_start = start
        self.end = end
        self.high_watermark = self.last_stable = start

    def advance_high_watermark(self, offset: int) -> None:
        assert offset <= self.end, "the high watermark is inside the log"
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.update_last_stable()

    def advance_start(self, offset: int) -> None:
        if offset > self.start:
            assert offset <= self.high_watermark, "only what everybody has may be deleted"
            self.start = offset
            self.update_last_stable()

    def start_is_durable(self, offset: int) -> None:
        """A checkpoint says that the log begins at `offset`, as it did when that was looked at; it may have begun again since."""
        self.durable_start = max(self.durable_start, min(offset, self.start))

    def cut_off(self, offset: int) -> None:
        """The log ends at `offset`; `update_last_stable` when the producers are those of what is left."""
        # A batch goes as a whole, also one in whose middle the log began.
        self.start = min(self.start, offset)
        self.durable_start = min(self.durable_start, offset)
        self.end = offset
        self.high_watermark = min(self.high_watermark, offset)

    def begin_again_at(self, offset: int) -> None:
        self.durable_start = min(self.durable_start, offset)
        self.start = self.end = self.high_watermark = self.last_stable = offset

    def update_last_stable(self) -> None:
        high_watermark = self.high_watermark
        self._producers.advance_high_watermark(high_watermark)
        first_unstable = self._producers.first_unstable_offset
        if first_unstable is None or first_unstable >= high_watermark:
            self.last_stable = high_watermark
        else:
            self.last_stable = max(first_unstable, self.start)
