"""What holds after every event of a broker, whatever has happened."""

from __future__ import annotations

from uuid import UUID

from oncelog.broker import BrokerCore
from oncelog.log import PartitionLog
from oncelog.simulation.broker_node import BrokerNode, SimulationFailure
from oncelog.transactions.state import IDLE


class Invariants:
    """Looks at one broker, process after process."""

    def __init__(self, broker: BrokerNode) -> None:
        self._broker = broker
        self._core: BrokerCore | None = None
        self._stable: dict[tuple[UUID, int], int] = {}
        self._epochs: dict[str, tuple[int, int]] = {}
        self.checks = 0

    def check(self) -> None:
        """Raise SimulationFailure for what does not hold."""
        core = self._broker.core
        if core is None or not self._broker.is_up:
            return
        self.checks += 1
        if core is not self._core:
            self._core = core
            # What was not durable may be gone, and nobody was told of it.
            self._stable.clear()
            self._epochs.clear()
        for partition in core.topics.partitions():
            self._check_log(partition.log)
        for transaction in core.transactions.coordinator.transactions():
            self._check_epoch(transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)

    def _check_log(self, log: PartitionLog) -> None:
        stable, high, end = log.last_stable_offset, log.high_watermark, log.log_end_offset
        if not log.log_start_offset <= stable <= high <= end:
            raise SimulationFailure(
                f"{log.name}: start {log.log_start_offset}, last stable offset {stable}, high watermark {high}, end {end}"
            )
        key = log.topic_id, log.partition
        if stable < self._stable.get(key, 0):
            raise SimulationFailure(
                f"{log.name}: the last stable offset goes back from {self._stable[key]} to {stable}"
            )
        self._stable[key] = stable

    def _check_epoch(self, transactional_id: str, producer_id: int, epoch: int) -> None:
        before_id, before = self._epochs.get(transactional_id, (-1, -1))
        if producer_id == before_id and epoch < before:
            raise SimulationFailure(
                f"{transactional_id}: producer {producer_id} goes back from epoch {before} to {epoch}"
            )
        self._epochs[transactional_id] = producer_id, epoch

    def unsettled(self) -> str | None:
        """What is still under way, if anything is."""
        core = self._broker.core
        if core is None or not self._broker.is_up:
            return "the broker is not up"
        for transaction in core.transactions.coordinator.transactions():
            if transaction.status not in IDLE:
                return f"the transaction of {transaction.transactional_id} is {transaction.status.label}"
        for partition in core.topics.partitions():
            log = partition.log
            if log.last_stable_offset < log.log_end_offset:
                return f"{log.name} is stable up to {log.last_stable_offset} of {log.log_end_offset}"
        return None
