"""The invariants of a broker, checked after every event."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from uuid import UUID

from oncelog.broker import BrokerCore
from oncelog.broker.storage.partition import Partition
from oncelog.environment import DiskError
from oncelog.log import PartitionLog
from oncelog.simulation.audit import audit_committed_offsets, audit_coordinators, audit_decisions, audit_logs
from oncelog.simulation.broker_node import BrokerNode, SimulationFailure
from oncelog.simulation.expectations import GivenProducerIds, RememberedTopics, TransactionDeadlines
from oncelog.simulation.short_lived import ShortLivedHistory
from oncelog.transactions.state import IDLE, TransactionMetadata

Offsets = tuple[int, int, int, int]
"""Log start offset, last stable offset, high watermark and log end offset."""
offsets_of: Callable[[PartitionLog], Offsets] = attrgetter(
    "log_start_offset", "last_stable_offset", "high_watermark", "log_end_offset"
)


class Invariants:
    """Looks at one broker, process after process. What is as it was when it was looked at last is not looked at again."""

    def __init__(self, broker: BrokerNode, short_lived: ShortLivedHistory, deadlines: TransactionDeadlines) -> None:
        self._broker = broker
        self._deadlines = deadlines
        self._short_lived = short_lived
        self._core: BrokerCore | None = None
        self._version = -1
        self._offsets: dict[Partition, Offsets] = {}
        self._transactions: dict[str, TransactionMetadata] = {}
        self._durable: dict[tuple[UUID, int], int] = {}
        """Up to where logs were durable in their own files when a process ended, or when it was last looked at."""
        broker.ends = self._note_durable
        self._producer_ids = GivenProducerIds()
        self.topics = RememberedTopics()
        self.has_flipped: Callable[[], bool] = lambda: False
        """True if the disk has changed the content of the logs: then they prove nothing."""

    def check(self) -> None:
        """Raise SimulationFailure for what does not hold."""
        core = self._broker.core
        if core is None or not self._broker.is_up:
            return
        if core is not self._core or core.topics.version != self._version:
            self._look_anew(core)
        for partition, before in self._offsets.items():
            if not partition.is_offline:
                now = offsets_of(partition.log)
                if now != before:
                    _check_offsets(partition, before, now)
                    self._offsets[partition] = now
        self._producer_ids.look_at(core)
        for transaction in core.transactions.coordinator.transactions():
            seen = self._transactions.get(transaction.transactional_id)
            if transaction is not seen:
                self._check_epoch(seen, transaction)
                self._deadlines.saw(transaction)
        self._deadlines.check()

    def _look_anew(self, core: BrokerCore) -> None:
        """After a start, what was not durable may be gone, and nobody was told of it."""
        before = self._offsets
        if core is not self._core:
            before = {}
            self._transactions = {}
            self._deadlines.started()
            self.topics.started(core.topics)
            self.audit()
        self._core, self._version = core, core.topics.version
        self.topics.look_at(core.topics)
        self._offsets = {one: before.get(one, (0, 0, 0, 0)) for one in core.topics.every_partition()}
        for topic in core.topics:
            self._short_lived.check_topic(topic.name, topic.topic_id, len(topic.partitions))

    def _check_epoch(self, seen: TransactionMetadata | None, now: TransactionMetadata) -> None:
        if seen is not None and now.producer_id == seen.producer_id and now.producer_epoch < seen.producer_epoch:
            raise SimulationFailure(
                f"{now.transactional_id}: producer {now.producer_id} goes back from epoch {seen.producer_epoch} to "
                f"{now.producer_epoch}"
            )
        self._transactions[now.transactional_id] = now

    def audit(self) -> None:
        """Check the broker's state against its logs. It takes long: for starts and stops."""
        core = self._broker.core
        if core is None or not self._broker.is_up or self.has_flipped():
            return
        if core is self._core:
            self._note_durable(core)
        try:
            audit_logs(core, self._durable)
            audit_coordinators(core)
            audit_committed_offsets(core)
        except DiskError:
            if not self._broker.is_disk_bad:
                raise

    def audit_idle(self) -> None:
        """The same when nothing is under way: then every decision was carried out."""
        core = self._broker.core
        assert core is not None, "the broker is not up"
        if self.has_flipped():
            return
        self._note_durable(core)
        audit_decisions(core, audit_logs(core, self._durable), self.topics.made_anew)

    def _note_durable(self, core: BrokerCore) -> None:
        """A start makes durable all that it finds: what it says itself tells nothing of what may have been cleaned before."""
        for partition in core.topics.every_partition():
            if partition.unopened is None:
                log = partition.log
                self._durable[log.topic_id, log.partition] = log.durability.recovery_point

    def in_progress(self) -> str | None:
        """The name of something that is still in progress, or None."""
        core = self._broker.core
        if core is None or not self._broker.is_up:
            return "the broker is not up"
        for transaction in core.transactions.coordinator.transactions():
            if transaction.status not in IDLE:
                return f"the transaction of {transaction.transactional_id} is {transaction.status.label}"
        for partition in core.topics.every_partition():
            if partition.damage is not None:
                return f"{partition} is offline: {partition.damage}"
            log = partition.log
            if log.last_stable_offset < log.log_end_offset:
                return f"{log.name} is stable up to {log.last_stable_offset} of {log.log_end_offset}"
        return None


def _check_offsets(partition: Partition, before: Offsets, now: Offsets) -> None:
    start, stable, high, end = now
    if not start <= stable <= high <= end:
        raise SimulationFailure(
            f"{partition}: start {start}, last stable offset {stable}, high watermark {high}, end {end}"
        )
    if stable != before[1] and any(
        max(one.first_offset, start) < stable for one in partition.log.producers.open_transactions()
    ):
        raise SimulationFailure(f"{partition}: a transaction is open before the last stable offset {stable}")
    for what, one, other in zip(("start", "last stable offset", "high watermark", "end"), before, now, strict=True):
        if other < one:
            raise SimulationFailure(f"{partition}: the {what} goes back from {one} to {other}")
