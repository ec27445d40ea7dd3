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
    """

    possible: dict[TopicPartition, set[int]] = field(default_factory=dict)
    """The offsets of which one is the last that was committed."""

    def ask(self, offsets: Mapping[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            self.possible.setdefault(partition, {-1}).add(offset)

    def answered(self, offsets: Mapping[TopicPartition, int], *, is_doubtful: bool) -> None:
        if not is_doubtful:
            self.possible.update({partition: {offset} for partition, offset in offsets.items()})

    def check(self, committed: Callable[[TopicPartition], int]) -> None:
        """Raise SimulationFailure where an offset is none of those; -1 is no offset."""
        for partition, possible in self.possible.items():
            found = committed(partition)
            if found not in possible:
                raise SimulationFailure(
                    f"{partition}: {found} is committed, and it must be one of {sorted(possible)[-5:]}"
                )
