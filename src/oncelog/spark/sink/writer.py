"""Writing micro-batches: encode the rows, send them, commit them with the offsets of the input."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace

from pyspark.sql import DataFrame

from oncelog.client import BrokerRefused, Client, ClientError, OffsetAndMetadata, ProducerIdentity, TopicPartition
from oncelog.spark.metrics import BatchReport
from oncelog.spark.plan import Expectation
from oncelog.spark.shipping import refuse_executors
from oncelog.spark.sink import fence
from oncelog.spark.sink.delivery import SPARK_ERRORS, BatchDelivery, DeliveryChanged
from oncelog.spark.sink.hanging import stable_offsets
from oncelog.spark.sink.kept_groups import LastFenceRecord
from oncelog.spark.sink.output import Output
from oncelog.spark.sink.settings import SinkSettings
from oncelog.spark.sink.transaction import Committed, SinkTransactions
from oncelog.spark.wait_log import answered
from oncelog.wire import ErrorCode

OFFSETS_RETENTION = "offsets.retention.minutes"
MINUTE_MS = 60_000
UNSEEN_RETENTION_MS = 24 * 60 * MINUTE_MS
"""The default of Kafka before 2.0; since then it is 7 days (KIP-186)."""
TIMEOUT_LIMIT = "transaction.max.timeout.ms"

TIME_SETTING = "call_timeout_ms, kafka.max.block.ms"
"""The argument and the option for the longest wait."""


def open_client(settings: SinkSettings) -> Client:
    """A client of the output's cluster."""
    return Client(
        settings.bootstrap_servers,
        client_id=settings.client_id,
        request_timeout_ms=settings.request_timeout_ms,
        call_timeout_ms=settings.call_timeout_ms,
        security=settings.security,
    )


def cluster_of(settings: SinkSettings) -> str:
    """The id of the output's cluster; its address where brokers tell none. Raises ClientError."""
    with _waiting_for(settings, "the cluster"), open_client(settings) as client:
        return client.describe_cluster().cluster_id or settings.bootstrap_servers


def look_first(
    client: Client, settings: SinkSettings, batch: fence.Batch, partitions: Iterable[TopicPartition]
) -> None:
    """Raise FenceError before the transactional id is taken and its present producer fenced.

    An open transaction may be about to commit the missing offsets, so a refusal is decided again when none is open.
    `partitions` are those whose offsets the micro-batch commits. Raises what `stable_offsets` raises.
    """

    last_record = LastFenceRecord(client, settings.group_id)

    def decide(committed: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        decided(client, settings, _progress(committed, last_record), batch)

    with _waiting_for(settings, f"the offsets of group {settings.group_id!r}"):
        try:
            decide(client.committed_offsets(settings.group_id, require_stable=False))
        except fence.FenceError:
            decide(stable_offsets(client, settings.group_id, partitions))


def decided(client: Client, settings: SinkSettings, progress: fence.FenceProgress, batch: fence.Batch) -> fence.Verdict:
    """Decide to run or to skip a micro-batch. Raises FenceError when neither is safe."""
    trust = settings.trust_checkpoint
    return fence.decide(progress, batch, lambda: offsets_retention_ms(client), trust_checkpoint=trust)


def broker_setting(client: Client, name: str) -> str | None:
    """A setting of the broker with the lowest number; None where this user may not see it."""
    try:
        node = min(client.describe_cluster().nodes, key=lambda node: node.node_id)
        entries = client.describe_configs(broker=node.node_id)[str(node.node_id)]
    except ClientError:
        return None
    return next((entry.value for entry in entries if entry.name == name), None)


def offsets_retention_ms(client: Client) -> int:
    """The time after which a broker may delete a group's offsets."""
    minutes = broker_setting(client, OFFSETS_RETENTION)
    return UNSEEN_RETENTION_MS if minutes is None else int(minutes) * MINUTE_MS


class Writer:
    """Owns the transactional id from the moment it is made. It reads the committed offsets after that, never before."""

    def __init__(self, settings: SinkSettings) -> None:
        """Fence the producer before, and end the transaction that it left open."""
        self._settings = settings
        self.client = open_client(settings)
        try:
            with _waiting_for(settings, f"transactional id {settings.transactional_id!r}"):
                self._transactions = SinkTransactions(settings, self.client)
        except BrokerRefused as refused:
            advice = _advice_on_taking(refused, settings, self.client)
            self.client.close()
            raise advice from None
        except BaseException:
            self.client.close()
            raise
        self._output = Output(settings, self.client)
        self._last_record = LastFenceRecord(self.client, settings.group_id)

    def close(self) -> None:
        self._output.close()
        self._transactions.close()
        self.client.close()

    @property
    def identity(self) -> ProducerIdentity:
        """The identity of the last transaction, or else of the next one."""
        return self._transactions.identity

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of the group, once none is pending; `partitions` are those whose offsets are to be committed.

        Raises what `stable_offsets` raises, and HangingTransaction where the output has an end missing.
        """
        named = (self._settings.topic, self._settings.dead_letter_topic)
        checked = self._transactions.checked
        checked.check(self.partitions_of(topic for topic in named if topic is not None))
        read = checked.committed(partitions)
        self._transactions.confirm(read)
        return read

    def progress(self, partitions: Iterable[TopicPartition]) -> fence.FenceProgress:
        """The progress of the group, with its last record where its offsets have expired. Raises what `committed` raises."""
        return _progress(self.committed(partitions), self._last_record)

    def keep(self, record: fence.FenceRecord, committed: Iterable[TopicPartition]) -> None:
        """Keep the record of the committed micro-batch for the time after the group's offsets have expired."""
        self._last_record.keep(record, committed)

    def partitions_of(self, topics: Iterable[str]) -> list[TopicPartition]:
        """The partitions of topics; of one that does not exist there are none."""
        described = self.client.metadata(topics)
        return [TopicPartition(name, item.partition) for name, topic in described.items() for item in topic.partitions]

    def write(
        self,
        rows: DataFrame,
        batch_id: int,
        expected: Expectation,
        entries: Callable[[list[TopicPartition]], Mapping[TopicPartition, OffsetAndMetadata]],
        is_wanted: Callable[[], bool],
    ) -> BatchReport:
        """Write a micro-batch, or a batch DataFrame, in one transaction.

        `entries` is called, once the rows are computed, with the partitions that are written. It returns the offsets to commit.

        Raises what `SinkTransactions.commit` and `Output.encode` raise, and QueryError where executors lack oncelog. When it
        returns, the micro-batch is committed.
        """
        started_ms = time.monotonic() * 1000
        for _ in range(self._settings.attempts):
            try:
                delivery = self._output.encode(rows, batch_id, expected, self._transactions.checked.topics)
            except SPARK_ERRORS as error:
                refuse_executors(error)
                raise
            try:
                return self.send(delivery, batch_id, entries(delivery.written), is_wanted, started_ms)
            except DeliveryChanged as changed:
                problem = changed
            finally:
                delivery.close()
        raise problem

    def send(
        self,
        delivery: BatchDelivery,
        batch_id: int,
        entries: Mapping[TopicPartition, OffsetAndMetadata],
        is_wanted: Callable[[], bool],
        started_ms: float,
    ) -> BatchReport:
        """Send an encoded micro-batch in one transaction. Raises what `SinkTransactions.commit` raises."""
        committed = self._transactions.commit(delivery, entries, is_wanted)
        return _report(batch_id, delivery, committed, started_ms)


def _progress(
    committed: Mapping[TopicPartition, OffsetAndMetadata], last_record: LastFenceRecord
) -> fence.FenceProgress:
    progress = fence.progress_from(committed)
    return replace(progress, expired=last_record.read()) if progress.newest is None else progress


def _waiting_for(settings: SinkSettings, what: str) -> AbstractContextManager[None]:
    return answered(settings.bootstrap_servers, what, settings.call_timeout_ms, TIME_SETTING)


def skipped_report(batch_id: int, total_ms: float, identity: ProducerIdentity) -> BatchReport:
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
        identity=identity,
    )


def _report(batch_id: int, delivery: BatchDelivery, committed: Committed, started_ms: float) -> BatchReport:
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
        unwritable=delivery.unwritable,
    )


def _advice_on_taking(refused: BrokerRefused, settings: SinkSettings, client: Client) -> BrokerRefused:
    """The refusal of a transactional id."""
    if refused.error is not ErrorCode.invalid_transaction_timeout:
        return refused
    limit_ms = broker_setting(client, TIMEOUT_LIMIT)
    limit = f"its {TIMEOUT_LIMIT}" if limit_ms is None else f"{limit_ms}, its {TIMEOUT_LIMIT}"
    return BrokerRefused(
        refused.error,
        f"transaction_timeout_ms (kafka.transaction.timeout.ms) is {settings.transaction_timeout_ms}, and the broker "
        f"allows at most {limit}; ask for less, or raise that limit",
    )
