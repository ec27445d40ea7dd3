"""Handover of partitions from a member of a group to the code that reads them, and back.

A member learns in the background what it is to take or to give up. The user learns it from `poll`, on their own thread,
and goes on with the partitions that it holds until then. Demands are carried out one by one, in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from oncelog.client.values import TopicPartition


class DemandKind(Enum):
    ASSIGN = "assign"
    REVOKE = "revoke"
    LOSE = "lose"


@dataclass(frozen=True, slots=True)
class Demand:
    kind: DemandKind
    partitions: frozenset[TopicPartition]


class Handover:
    """The partitions that the user holds, and the demands that are not carried out yet."""

    def __init__(self) -> None:
        self.held: frozenset[TopicPartition] = frozenset()
        self._waiting: deque[Demand] = deque()
        self._at_work: Demand | None = None
        self._is_losing = False

    @property
    def is_complete(self) -> bool:
        """True when every demand is carried out."""
        return not self._waiting and self._at_work is None and not self._is_losing

    @property
    def will_hold(self) -> frozenset[TopicPartition]:
        """The partitions that the user holds once every demand is carried out."""
        held = frozenset() if self._is_losing else self.held
        for demand in self._waiting:
            held = _after(held, demand)
        return held

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._add(DemandKind.ASSIGN, frozenset(partitions))

    def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        self._add(DemandKind.REVOKE, frozenset(partitions))

    def give_up(self) -> None:
        """Demand that everything is given up, in place of the demands that wait."""
        self._waiting.clear()
        self.revoke(self.held)

    def lose(self) -> None:
        """Demand that everything counts as lost, in place of the demands that wait."""
        self._waiting.clear()
        self._is_losing = bool(self.held) or self._at_work is not None

    def take(self) -> Demand | None:
        """The next demand to carry out, if there is one; `carried_out` comes next."""
        if self._is_losing:
            self._at_work = Demand(DemandKind.LOSE, self.held)
        else:
            self._at_work = self._waiting[0] if self._waiting else None
        return self._at_work

    def carried_out(self, demand: Demand) -> None:
        """The user's callback has returned. A loss that came meanwhile takes what is held now."""
        assert demand is self._at_work, "demands are carried out one by one"
        self._at_work = None
        self.held = _after(self.held, demand)
        if demand.kind is DemandKind.LOSE:
            self._is_losing = False
        elif self._is_losing:
            self._is_losing = bool(self.held)
        else:
            self._waiting.popleft()

    def _add(self, kind: DemandKind, partitions: frozenset[TopicPartition]) -> None:
        if partitions:
            self._waiting.append(Demand(kind, partitions))


def _after(held: frozenset[TopicPartition], demand: Demand) -> frozenset[TopicPartition]:
    return held | demand.partitions if demand.kind is DemandKind.ASSIGN else held - demand.partitions
