"""Reports of micro-batches and batch writes, and their sums."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.client import ProducerIdentity
from oncelog.spark.plan import Mode

REPORTS_MAX = 100
"""The number of reports that a sink keeps: as many as Spark keeps progress reports by default."""


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One micro-batch, or one batch write, whose `batch_id` is 0. A skipped one was committed before; nothing of it was sent.

    `transaction_ms` is from the first request of the transaction that was committed to the answer of its end, `total_ms`
    the whole of foreachBatch. `attempts` counts transactions, so retries are one less. `input_offsets` is how many offsets
    of topics it read, `lag` how many more there were when it began; None where that is not known here. The offsets of
    markers count in both. `unwritable` counts the records that were left out, or went to the dead-letter topic; those are
    among `records` too. `sequence` counts what was committed for the group, by whichever checkpoint: one that is repeated has
    the same again. A batch write has none.
    """

    batch_id: int
    is_skipped: bool
    records: int
    size_bytes: int
    partitions: int
    mode: Mode | None
    attempts: int
    transaction_ms: float
    total_ms: float
    identity: ProducerIdentity
    input_offsets: int | None = None
    lag: int | None = None
    unwritable: int = 0
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class SinkMetrics:
    """The sum over the micro-batches of this sink object."""

    batches: int = 0
    batches_skipped: int = 0
    records: int = 0
    size_bytes: int = 0
    retries: int = 0
    transaction_ms: float = 0.0
    transaction_ms_max: float = 0.0
    unwritable: int = 0

    def plus(self, batch: BatchReport) -> SinkMetrics:
        return SinkMetrics(
            batches=self.batches + 1,
            batches_skipped=self.batches_skipped + batch.is_skipped,
            records=self.records + batch.records,
            size_bytes=self.size_bytes + batch.size_bytes,
            retries=self.retries + max(0, batch.attempts - 1),
            transaction_ms=self.transaction_ms + batch.transaction_ms,
            transaction_ms_max=max(self.transaction_ms_max, batch.transaction_ms),
            unwritable=self.unwritable + batch.unwritable,
        )


class RecentReports:
    """The last reports, by micro-batch. One thread adds to them while others look."""

    def __init__(self) -> None:
        self._reports: dict[int, BatchReport] = {}

    def add(self, report: BatchReport) -> None:
        """A micro-batch that was run again is the last one."""
        self._reports.pop(report.batch_id, None)
        self._reports[report.batch_id] = report
        if len(self._reports) > REPORTS_MAX:
            del self._reports[next(iter(self._reports))]

    def of(self, batch_id: int) -> BatchReport | None:
        return self._reports.get(batch_id)
