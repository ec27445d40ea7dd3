"""Counters of a cluster member since its start, for its metrics."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from oncelog.cluster.zookeeper.session import ZooKeeperSessionState

CONNECTED, DISCONNECTED, EXPIRED = ZooKeeperSessionState


@dataclass(slots=True)
class Durations:
    """A count of operations and their total duration."""

    count: int = 0
    total_ms: float = 0

    def add(self, duration_ms: float) -> None:
        self.count += 1
        self.total_ms += duration_ms


@dataclass(slots=True)
class InSyncCounts:
    """Changes of in-sync sets that the controller made for this broker, and answers by which it did not."""

    expands: int = 0
    shrinks: int = 0
    failed: int = 0


@dataclass(slots=True)
class ControllerCounts:
    """Counters over all terms of this broker as the controller."""

    queued: Durations = field(default_factory=Durations)
    served: defaultdict[str, Durations] = field(default_factory=lambda: defaultdict(Durations))
    """By the names of events."""
    unclean_elections_before: int = 0
    """Unclean elections of terms that are over."""


class SessionCounts:
    """Changes of the session with ZooKeeper, beginning with the first connection."""

    def __init__(self) -> None:
        self.state = CONNECTED
        self.changes: dict[ZooKeeperSessionState, int] = {CONNECTED: 1, DISCONNECTED: 0, EXPIRED: 0}

    def session_changed(self, state: ZooKeeperSessionState) -> None:
        self.state = state
        self.changes[state] += 1
