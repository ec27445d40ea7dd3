"""Writing micro-batches: encode the rows, send them, commit them with the offsets of the input."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame

from oncelog.client import Client, OffsetAndMetadata, TopicPartition
from oncelog.spark.delivery import Delivery, DeliveryChanged
from oncelog.spark.metrics import BatchReport
from oncelog.spark.output import Output
from oncelog.spark.plan import Expectation
from oncelog.spark.sink_settings import SinkSettings
from oncelog.spark.transaction import Committed, Transactions


class Writer:
    """Owns the transactional id from the moment it is made; what the group had committed is read after that, never before."""

    def __init__(self, settings: SinkSettings) -> None:
        """Fences whoever wrote under this transactional id, and ends the transaction they left open."""
        self._settings = settings
        self.client = Client(
            settings.bootstrap_servers, client_id=settings.client_id, call_timeout_ms=settings.call_timeout_ms
        )
        try:
            self._transactions = Transactions(settings)
        except BaseException:
            self.client.close()
            raise
        self._output = Output(settings, self.client)

    def close(self) -> None:
        self._output.close()
        self._transactions.close()
        self.client.close()

    def committed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed, once no transaction is pending."""
        return self.client.committed_offsets(self._settings.group_id, require_stable=True)

    def write(
        self,
        rows: DataFrame,
        batch_id: int,
        expected: Expectation,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        is_wanted: Callable[[], bool],
    ) -> BatchReport:
        """Write a micro-batch in one transaction.

        Raises what `Transactions.commit` and `Output.encode` raise; when it returns, the micro-batch is committed.
        """
        started_ms = time.monotonic() * 1000
        for _ in range(self._settings.attempts):
            delivery, partitions = self._output.encode(rows, batch_id, expected)
            try:
                committed = self._transactions.commit(delivery, partitions, offsets, is_wanted)
            except DeliveryChanged as changed:
                problem = changed
            else:
                return _report(batch_id, delivery, committed, started_ms)
            finally:
                delivery.close()
        raise problem

    def skipped(self, batch_id: int, total_ms: float) -> BatchReport:
        """The report of a micro-batch that was committed before."""
        return BatchReport(
            batch_id=batch_id,
            is_skipped=True,
            records=0,
            size_bytes=0,
            partitions=0,
            mode=None,
            attempts=0,
            transaction_ms=0.0,
            total_ms=total_ms,
            identity=self._transactions.identity,
        )


def _report(batch_id: int, delivery: Delivery, committed: Committed, started_ms: float) -> BatchReport:
    counts = delivery.counts.values()
    return BatchReport(
        batch_id=batch_id,
        is_skipped=False,
        records=sum(count.records for count in counts),
        size_bytes=sum(count.size_bytes for count in counts),
        partitions=len(counts),
        mode=delivery.mode,
        attempts=committed.attempts,
        transaction_ms=committed.transaction_ms,
        total_ms=time.monotonic() * 1000 - started_ms,
        identity=committed.identity,
    )
