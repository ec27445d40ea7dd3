"""How far a broker has come since it began to start, and how far it has to have come for a request."""

from __future__ import annotations

from enum import IntEnum

from oncelog.coordination import Promise


class Readiness(IntEnum):
    """Each follows the one before it."""

    IDENTITY = 0
    """It knows who it is, and what it has been told about itself."""
    LOGS = 1
    """Every log is open."""
    METADATA = 2
    """It knows which topics there are, and who leads their partitions: alone at once, in a cluster from its controller."""
    COORDINATORS = 3
    """The coordinators know what is in theirs. In a cluster they load while others are served."""


class StartProgress:
    """A request that comes early waits until the broker is ready for it, whatever else there is to be loaded."""

    __slots__ = ("_promises", "reached")

    def __init__(self) -> None:
        self.reached = Readiness.IDENTITY
        self._promises: dict[Readiness, Promise[None]] = {readiness: Promise() for readiness in Readiness}
        self._promises[Readiness.IDENTITY].resolve(None)

    def reach(self, readiness: Readiness) -> None:
        assert readiness == self.reached + 1, f"{readiness.name} does not follow {self.reached.name}"
        self.reached = readiness
        self._promises[readiness].resolve(None)

    def until(self, readiness: Readiness) -> Promise[None]:
        return self._promises[readiness]
