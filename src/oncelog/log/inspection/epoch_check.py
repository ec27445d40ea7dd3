"""Whether the leader epochs of the batches grow, and the checkpoint of the partition says the same as they do."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.environment import Disk, DiskError
from oncelog.log.checkpoints import read_epoch_starts
from oncelog.log.inspection.findings import AtStart, Finding, Report
from oncelog.log.leader_epochs import LeaderEpochs
from oncelog.log.names import LEADER_EPOCHS
from oncelog.log.scan import ScannedBatch


@dataclass(frozen=True, slots=True)
class WrongEpoch:
    """A batch whose leader epoch cannot be right, and the one that it was written under."""

    offset: int
    position: int
    segment_path: str
    epoch: int
    right_epoch: int


class EpochCheck:
    """A batch is held until the one behind it is known: an epoch that goes down again was never up."""

    def __init__(self, in_file: LeaderEpochs | None, epoch_max: int | None) -> None:
        self.wrong: list[WrongEpoch] = []
        self.epochs = LeaderEpochs()
        """Those of the batches, as the file should have them."""
        self.disagreement: tuple[int, int, int] | None = None
        """The first offset at which the file says another epoch than its batch; what the file says, what the batch."""
        self.in_file = in_file
        self._epoch_max = epoch_max
        self._held: tuple[str, int, int, int] | None = None
        self._last = -1

    def take(self, path: str, batch: ScannedBatch) -> None:
        header = batch.header
        self._judge(header.leader_epoch)
        self._held = (path, batch.position, header.base_offset, header.leader_epoch)

    def finish(self) -> None:
        self._judge(None)
        self._held = None

    def _judge(self, following: int | None) -> None:
        if self._held is None:
            return
        path, position, offset, epoch = self._held
        said = epoch if self.in_file is None else self.in_file.epoch_of(offset)
        is_too_high = self._epoch_max is not None and epoch > self._epoch_max and said != epoch
        goes_down = following is not None and self._last <= following < epoch
        if epoch < self._last or is_too_high or goes_down:
            self.wrong.append(WrongEpoch(offset, position, path, epoch, self._right(offset, following)))
            return
        self._last = epoch
        self.epochs.assign(epoch, offset)
        if said != epoch and self.disagreement is None:
            self.disagreement = (offset, said, epoch)

    def _right(self, offset: int, following: int | None) -> int:
        """What the file says, if that is between the epochs before and behind."""
        said = -1 if self.in_file is None else self.in_file.epoch_of(offset)
        is_possible = said >= self._last and (following is None or said <= max(following, self._last))
        return said if is_possible else max(self._last, 0)


def read_epochs(disk: Disk, directory: str, report: Report) -> LeaderEpochs | None:
    """What the checkpoint says; None if it makes no sense."""
    path = f"{directory}/{LEADER_EPOCHS}"
    try:
        starts = read_epoch_starts(disk, path)
    except DiskError as error:
        report(Finding(path, str(error), AtStart.REBUILDS))
        return None
    epochs = LeaderEpochs(starts)
    if list(epochs.starts) != starts:
        report(Finding(path, "epochs and their offsets do not grow from line to line", AtStart.REBUILDS))
        return None
    return epochs
