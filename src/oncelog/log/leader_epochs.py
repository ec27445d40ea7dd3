"""Which leader epoch wrote which offsets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from oncelog.log.checkpoints import EpochStart

UNKNOWN_EPOCH_END = (-1, -1)


class LeaderEpochs:
    """The start offset of each epoch, both growing."""

    __slots__ = ("_starts",)

    def __init__(self, starts: Iterable[EpochStart] = ()) -> None:
        self._starts: list[EpochStart] = []
        for start in starts:
            self.assign(start.epoch, start.start_offset)

    @property
    def latest(self) -> int:
        """-1 if nothing was ever written."""
        return self._starts[-1].epoch if self._starts else -1

    @property
    def starts(self) -> tuple[EpochStart, ...]:
        return tuple(self._starts)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` begins at `start_offset`; False if that was known."""
        if epoch <= self.latest:
            return False
        while self._starts and self._starts[-1].start_offset >= start_offset:
            # That epoch's leader wrote nothing.
            self._starts.pop()
        self._starts.append(EpochStart(epoch, start_offset))
        return True

    def end_with(self, epoch: int) -> bool:
        """Forget the epochs above `epoch`; False if there are none."""
        count = len(self._starts)
        while self._starts and self._starts[-1].epoch > epoch:
            self._starts.pop()
        return len(self._starts) < count

    def epoch_of(self, offset: int) -> int:
        slot = bisect_right(self._starts, offset, key=lambda start: start.start_offset) - 1
        return -1 if slot < 0 else self._starts[slot].epoch

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """OffsetForLeaderEpoch: the largest epoch not above `epoch`, and the offset at which the next one starts.

        An epoch below all that are known ends where the first of them starts; (-1, -1) if `epoch` is above them all.
        """
        if epoch < 0 or epoch > self.latest:
            return UNKNOWN_EPOCH_END
        if epoch == self.latest:
            return epoch, log_end_offset
        slot = bisect_right(self._starts, epoch, key=lambda start: start.epoch)
        answered = self._starts[slot - 1].epoch if slot else epoch
        return answered, self._starts[slot].start_offset

    def truncate_end(self, offset: int) -> bool:
        """Forget the epochs that start at `offset` or after it; False if there are none."""
        count = len(self._starts)
        while self._starts and self._starts[-1].start_offset >= offset:
            self._starts.pop()
        return len(self._starts) < count
