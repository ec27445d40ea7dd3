"""Offsets that a group commits outside transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from oncelog.client.values import TopicPartition
from oncelog.simulation.broker_node import SimulationFailure


@dataclass(slots=True)
class PlainCommits:
    """What the one member of a group asked for and was told. A later life of it has another generation, which refuses what
    is late of the earlier; within one life, a request that was sent twice may come again behind those that follow it.

    A kill of the broker takes none of them, and a power cut any: `power_cuts` is how many there were.
    """

    power_cuts: Callable[[], int]
    asked: dict[TopicPartition, set[int]] = field(default_factory=dict)
    possible: dict[TopicPartition, set[int]] = field(default_factory=dict)
    """The offsets of which one is the last that was committed."""
    cuts: int = 0
    """The power cuts that `possible` knows of."""

    def ask(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._look_for_power_cuts()
        for partition, offset in offsets.items():
            for seen in (self.asked, self.possible):
                seen.setdefault(partition, {-1}).add(offset)

    def answered(self, offsets: Mapping[TopicPartition, int], *, is_doubtful: bool) -> None:
        """What was asked for last was carried out: for sure before any power cut since."""
        if not is_doubtful and self.cuts == self.power_cuts():
            self.possible.update({partition: {offset} for partition, offset in offsets.items()})

    def _look_for_power_cuts(self) -> None:
        if self.cuts != self.power_cuts():
            self.cuts = self.power_cuts()
            self.possible = {partition: set(offsets) for partition, offsets in self.asked.items()}

    def check(self, committed: Callable[[TopicPartition], int]) -> None:
        """Raise SimulationFailure where an offset is none of those; -1 is no offset."""
        self._look_for_power_cuts()
        for partition, possible in self.possible.items():
            found = committed(partition)
            if found not in possible:
                raise SimulationFailure(
                    f"{partition}: {found} is committed, and it must be one of {sorted(possible)[-5:]}"
                )
