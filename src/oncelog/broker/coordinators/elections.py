"""The partitions of a coordinator's topic that this broker coordinates. It loads each when it becomes the leader.

A broker that is alone becomes the leader of every partition, at its start or when the topic is made. In a cluster
LeaderAndIsr leads to `elected` and `resigned`, as Kafka's broker calls its coordinators' onElection and onResignation.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Protocol

from oncelog.broker.coordinators.known_brokers import KnownBrokers
from oncelog.broker.slices import Slices
from oncelog.broker.storage.topics import Topics
from oncelog.coordination import Promise
from oncelog.coordination.internal_topics import ACTIVE, CLOSED, FAILED, LOADING, CoordinatorState, is_legal
from oncelog.environment import DiskError
from oncelog.wire import ErrorCode

logger = logging.getLogger("oncelog.broker")

NOT_LED = -1
"""Stands for the leader epoch of a partition that this broker does not coordinate."""

_ERRORS = {
    CLOSED: ErrorCode.not_coordinator,
    LOADING: ErrorCode.coordinator_load_in_progress,
    FAILED: ErrorCode.not_coordinator,
}


class Coordinates(Protocol):
    """A coordinator, at the election and the resignation of a partition of its topic."""

    def load(self, partition: int) -> Iterator[None]:
        """Replay it, in short steps; until the last of them nobody is served from it. Raises DiskError."""
        ...

    def loaded(self, partition: int, epoch: int) -> None:
        """From now on it is served: do what it leaves to be done."""
        ...

    def unload(self, partition: int) -> None:
        """Forget what was replayed, all or a part of it, and answer those who wait for something of it."""
        ...


class _Leadership:
    """One partition under one leader epoch."""

    __slots__ = ("epoch", "state")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.state = CLOSED

    def move(self, after: CoordinatorState) -> None:
        assert is_legal(self.state, after), (self.state, after)
        self.state = after


class Elections:
    """The partitions of one coordinator's topic."""

    def __init__(
        self, known_brokers: KnownBrokers, topics: Topics, topic: str, coordinator: Coordinates, slices: Slices
    ) -> None:
        """`slices` are for loading alone: what is queued there is loaded one partition after the other."""
        self._known_brokers = known_brokers
        self._topics = topics
        self._topic = topic
        self._coordinator = coordinator
        self._slices = slices
        self._led: dict[int, _Leadership] = {}

    # --- who coordinates

    def state(self, partition: int) -> CoordinatorState:
        led = self._led.get(partition)
        return CLOSED if led is None else led.state

    def error(self, partition: int) -> ErrorCode:
        """The error for requests to this partition; none if this broker coordinates it.

        Errors: not_coordinator, coordinator_load_in_progress.
        """
        led = self._led.get(partition)
        if led is None:
            return ErrorCode.not_coordinator
        if led.state is ACTIVE:
            return ErrorCode.none if self._known_brokers.is_alive else ErrorCode.not_coordinator
        return _ERRORS[led.state]

    def epoch(self, partition: int) -> int:
        """The leader epoch under which what is known of the partition was loaded: the coordinator's epoch. Else NOT_LED."""
        led = self._led.get(partition)
        return led.epoch if led is not None and led.state is ACTIVE else NOT_LED

    def term(self, partition: int) -> object:
        """The term of this coordinator, to be compared before and after a wait. None where this broker does not coordinate.

        An epoch is not enough: a broker that has left the cluster for a moment may lead under the same one again, and has
        loaded anew what was decided meanwhile.
        """
        led = self._led.get(partition)
        return led if led is not None and led.state is ACTIVE else None

    @property
    def is_loading(self) -> bool:
        return any(led.state is LOADING for led in self._led.values())

    # --- what changes it

    def elected(self, partition: int, epoch: int) -> Promise[None]:
        """This broker leads the partition under this epoch; resolved when it is loaded, or the load is overtaken.

        What a newer epoch meets is loaded anew. One that is not newer comes late, and says nothing.
        """
        return self._slices.run(self.loading(partition, epoch))

    def loading(self, partition: int, epoch: int) -> Iterator[None]:
        """The same, for a caller that takes the steps itself. Until it has, requests are told that it is being loaded."""
        before = self._led.get(partition)
        if before is not None:
            if epoch <= before.epoch:
                return iter(())
            self._close(partition, before)
        led = self._led[partition] = _Leadership(epoch)
        led.move(LOADING)
        return self._load(partition, led)

    def resigned(self, partition: int, epoch: int | None = None) -> None:
        """This broker leads the partition no more: another does under this epoch, or with None nobody who is known.

        An epoch that is not newer comes late, and says nothing.
        """
        led = self._led.get(partition)
        if led is None:
            if epoch is not None:
                self._led[partition] = _Leadership(epoch)
            return
        if epoch is not None and epoch <= led.epoch:
            return
        self._close(partition, led)
        if epoch is None:
            # A broker that has forgotten its leader epochs may be told the same again.
            del self._led[partition]
        else:
            # A new one: a load that is under way finds that it is not about this.
            self._led[partition] = _Leadership(epoch)

    def _close(self, partition: int, led: _Leadership) -> None:
        if led.state is not CLOSED:
            led.move(CLOSED)
            self._coordinator.unload(partition)
            logger.info(
                "%s-%d: not coordinated here any more, since leader epoch %d", self._topic, partition, led.epoch
            )

    def _load(self, partition: int, led: _Leadership) -> Iterator[None]:
        """A load that is overtaken ends at its next step; what it replayed is forgotten by then."""
        if led.state is not LOADING:
            return
        try:
            for _ in self._coordinator.load(partition):
                yield
                if led.state is not LOADING:
                    return
        except DiskError as error:
            self._fail(partition, led, error)
            return
        found = self._topics.partition(self._topic, partition)
        if found is None or found.is_offline:
            self._coordinator.unload(partition)
            led.move(FAILED)
            return
        led.move(ACTIVE)
        self._coordinator.loaded(partition, led.epoch)

    def _fail(self, partition: int, led: _Leadership, error: DiskError) -> None:
        """Forget a partition that cannot be read to its end: half of it is worse than nothing."""
        self._coordinator.unload(partition)
        led.move(FAILED)
        found = self._topics.partition(self._topic, partition)
        if found is not None:
            self._topics.failed(found, error)
