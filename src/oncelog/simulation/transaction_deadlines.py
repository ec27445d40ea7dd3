"""When each transaction must have ended at the latest, by the clock of the run and not by what the broker remembers of it.

An open one ends when its timeout is over and the broker looks for such: at the next interval. What else happens to it meanwhile,
and a start of the broker, do not put that off. One that is decided ends when its markers are written. Both hold as soon as nothing
goes wrong any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

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
    """Whether the process that runs has said so."""


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
