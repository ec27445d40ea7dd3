"""A producer id is given out once, whichever broker gives it, and whatever was lost between two of its lives."""

from __future__ import annotations

from oncelog.broker import BrokerCore
from oncelog.broker.coordinators.producer_ids import ProducerIds
from oncelog.simulation.broker_node import SimulationFailure


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
