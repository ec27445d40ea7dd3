"""Bugs planted in what makes logs shorter: compaction, retention, DeleteRecords."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from oncelog.broker.housekeeping import LogUpkeep
from oncelog.log import cleanup
from oncelog.log.compaction import Cleaning
from oncelog.log.compaction.batch_filter import BatchFilter, CleanedTransactions, _emptied
from tests.simulation.planting import Hides, Patch, PlantedBugs

BUGS = PlantedBugs()


@BUGS.add("a marker is compacted away while batches of its transaction are left", Hides.CRASHES, 60)
def _markers_go_too_early() -> Patch:
    def kept(self: Any, batch: Any, *, keeps_empty: bool) -> Any:
        return _emptied(batch.header) if keeps_empty else None

    return patch.object(BatchFilter, "_kept_marker", kept)


@BUGS.add("a log is compacted past its last stable offset", Hides.PRODUCERS, 400)
def _compacted_past_the_stable_offset() -> Patch:
    dirt_of = cleanup.dirt_of

    def dirt(*arguments: Any, **offsets: Any) -> Any:
        return dirt_of(*arguments, **(offsets | {"last_stable_offset": offsets["log_end_offset"]}))

    return patch.object(cleanup, "dirt_of", dirt)


@BUGS.add("compaction takes an aborted record for the last of its key", Hides.IN_A_RULE, 120)
def _aborted_records_are_last() -> Patch:
    begin = Cleaning.__init__

    def begun(self: Any, *arguments: Any, **more: Any) -> None:
        begin(self, *arguments, **more)
        self._mapped = CleanedTransactions(())

    return patch.object(Cleaning, "__init__", begun)


@BUGS.add("old segments are deleted before a checkpoint says so", Hides.AFTER_A_CHANGE, 120)
def _deleted_before_the_checkpoint() -> Patch:
    async def leave(self: Any) -> None:
        now_ms = self._clock.now_ms()
        await self._for_each_log(lambda log: log.retention.leave_expired(now_ms))
        await self._for_each_log(lambda log: log.retention.delete_left(log.log_start_offset))

    return patch.object(LogUpkeep, "_leave_and_delete", leave)
