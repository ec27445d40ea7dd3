"""Expectations that outlive a broker: the deadlines of transactions, the producer ids, and the topics."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from uuid import UUID

from oncelog.broker import BrokerCore
from oncelog.broker.coordinators.producer_ids import ProducerIds
from oncelog.broker.storage.topics import Topics
from oncelog.simulation.broker_node import BrokerNode, SimulationFailure
from oncelog.simulation.events import EventQueue
from oncelog.transactions.state import IDLE, ONGOING, TransactionMetadata

INTERVAL = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
SLACK_MS = 10_000
"""For what takes its time still when the faults end, and for the markers."""


@dataclass(slots=True)
class _Unended:
    """A transaction that has not ended: since when it is open, and decided. `jump_ms` is how far the time of day was ahead then."""

    producer: tuple[int, int]
    timeout_ms: int
    open_since_ms: float
    jump_ms: float
    decided_ms: float | None = None
    is_known: bool = True
    """True once the running process has shown it."""


# An open transaction ends when its timeout is over and the broker looks for such: at the next interval. Neither other events nor
# a start of the broker put that off. A decided one ends when its markers are written. Both hold as soon as no fault is left.
class TransactionDeadlines:
    def __init__(self, broker: BrokerNode, queue: EventQueue) -> None:
        self._broker = broker
        self._queue = queue
        self._unended: dict[str, _Unended] = {}
        self._started_ms = 0.0
        self._healed_ms = inf

    def started(self) -> None:
        """Another process has begun. It will tell what it has found."""
        self._started_ms = self._queue.now_ms
        for one in self._unended.values():
            one.is_known = False

    def healed(self) -> None:
        """From now on nothing goes wrong."""
        self._healed_ms = self._queue.now_ms

    def saw(self, now: TransactionMetadata) -> None:
        """A transactional id is not as it was, or a process tells of it for the first time."""
        before = self._unended.pop(now.transactional_id, None)
        if now.status in IDLE:
            return
        producer = (now.producer_id, now.producer_epoch)
        is_open = now.status is ONGOING
        if before is None or (is_open and (before.decided_ms is not None or before.producer != producer)):
            before = _Unended(producer, now.timeout_ms, self._queue.now_ms, self._broker.jump_ms)
        before.is_known = True
        if not is_open and before.decided_ms is None:
            before.decided_ms = self._queue.now_ms
        self._unended[now.transactional_id] = before

    def check(self) -> None:
        """Raise SimulationFailure for a transaction that should have ended by now."""
        if self._healed_ms is inf:
            return
        calm_ms = max(self._healed_ms, self._started_ms, self._broker.process.paused_until_ms)
        for transactional_id, one in self._unended.items():
            if one.is_known and max(self._end_ms(one), calm_ms + self._wait_ms(one)) < self._queue.now_ms:
                how = "is open" if one.decided_ms is None else "was decided, and is not complete"
                raise SimulationFailure(
                    f"the transaction of {transactional_id} {how} after {self._queue.now_ms - one.open_since_ms:.0f} ms, "
                    f"with a timeout of {one.timeout_ms} ms"
                )

    def _end_ms(self, one: _Unended) -> float:
        """When it has to have ended, if nothing ever goes wrong. A time of day that has gone back puts that off."""
        if one.decided_ms is not None:
            return one.decided_ms + self._wait_ms(one)
        put_off_ms = max(0.0, one.jump_ms - self._broker.jump_ms)
        return one.open_since_ms + one.timeout_ms + put_off_ms + self._wait_ms(one)

    def _wait_ms(self, one: _Unended) -> float:
        return SLACK_MS if one.decided_ms is not None else float(self._broker.settings[INTERVAL]) + SLACK_MS


class GivenProducerIds:
    """The blocks that brokers have had to give. From the moment on at which one has a block, nobody else may ever get it."""

    def __init__(self) -> None:
        self._ends: dict[ProducerIds, int] = {}
        """Up to where the newest block of each goes. A broker has others in its next life."""
        self._given: list[range] = []

    def look_at(self, core: BrokerCore) -> None:
        """After an event of a broker. Raise SimulationFailure for a block that was another one's."""
        ids = core.producer_ids if hasattr(core, "producer_ids") else None
        if ids is None or not ids.blocks or self._ends.get(ids) == ids.blocks[-1].stop:
            return
        seen = self._ends.get(ids)
        for block in ids.blocks:
            if seen is None or block.start >= seen:
                self._note(block)
        self._ends[ids] = ids.blocks[-1].stop

    def _note(self, block: range) -> None:
        for given in self._given:
            if block.start < given.stop and given.start < block.stop:
                raise SimulationFailure(
                    f"producer ids {block.start} to {block.stop - 1} are given out again: {given.start} to "
                    f"{given.stop - 1} were"
                )
        self._given.append(block)


class RememberedTopics:
    """A topic is there when its record is durable, and gone when that is. Neither a kill nor a power cut changes it."""

    def __init__(self) -> None:
        self.made_anew: set[str] = set()
        """The names that more than one topic had."""
        self._topics: Topics | None = None
        self._names: dict[str, UUID] = {}
        self._counts: dict[UUID, int] = {}
        self._gone: set[UUID] = set()

    def started(self, topics: Topics) -> None:
        """Raise SimulationFailure for what a start has lost, or brought back."""
        there = {topic.topic_id: len(topic.partitions) for topic in topics}
        for topic_id, count in self._counts.items():
            if topic_id not in there and not self._may_be_gone(topic_id):
                raise SimulationFailure(f"a start has lost the topic {topic_id}")
            if there.get(topic_id, count) < count:
                raise SimulationFailure(f"a start has {there[topic_id]} of {count} partitions of the topic {topic_id}")
        back = self._gone & there.keys()
        if back:
            raise SimulationFailure(f"a start has brought deleted topics back: {sorted(map(str, back))}")

    def _may_be_gone(self, topic_id: UUID) -> bool:
        """True if the broker before was deleting it, or had just done so. The end of that broker ended the look at it,
        too.
        """
        assert self._topics is not None, "there is a count of what was looked at"
        topic = self._topics.with_id(topic_id)
        return topic is None or self._topics.is_being_deleted(topic.name)

    def look_at(self, topics: Topics) -> None:
        """Topics have come, or grown, or are gone."""
        self._topics = topics
        there = {topic.topic_id: len(topic.partitions) for topic in topics}
        self._gone = (self._gone | self._counts.keys()) - there.keys()
        self._counts = there
        for topic in topics:
            if self._names.setdefault(topic.name, topic.topic_id) != topic.topic_id:
                self.made_anew.add(topic.name)
