"""What a sink says about its micro-batches."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.client import ProducerIdentity
from oncelog.spark.plan import Mode


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One micro-batch. A skipped one was committed before the query was started again; nothing of it was sent.

    `transaction_ms` is from the first request of the transaction that was committed to the answer of its end, `total_ms`
    the whole of foreachBatch. `attempts` counts transactions, so retries are one less.
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

    def plus(self, batch: BatchReport) -> SinkMetrics:
        return SinkMetrics(
            batches=self.batches + 1,
            batches_skipped=self.batches_skipped + batch.is_skipped,
            records=self.records + batch.records,
            size_bytes=self.size_bytes + batch.size_bytes,
            retries=self.retries + max(0, batch.attempts - 1),
            transaction_ms=self.transaction_ms + batch.transaction_ms,
            transaction_ms_max=max(self.transaction_ms_max, batch.transaction_ms),
        )
