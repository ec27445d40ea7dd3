"""What the demo runs on: one broker, or a cluster of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from oncelog.cli.demo.kills import Kill
from oncelog.cli.demo.plan import Guarantee


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A cluster after everybody is back. Resident bytes are those of each member by its name."""

    seed: int
    under_replicated: int
    offline: int
    resident_bytes: Mapping[str, int]


class Brokers(Protocol):
    """It can be killed at any moment, and comes back by itself."""

    replication_factor: int
    micro_batches: int
    """In how many each pipeline reads the flights, so that every kill finds one."""

    @property
    def bootstrap_servers(self) -> str:
        """Of every broker there is."""

    @property
    def complaint(self) -> str | None:
        """A sentence about what went wrong with it by itself; None while nothing has."""

    def start(self) -> None:
        """Start all of it, and wait until it serves. Raises ProcessError."""

    def kills(self, guarantee: Guarantee) -> tuple[Kill, ...]:
        """All that one way of writing has to go through, those of the driver included."""

    def kill(self, kill: Kill, topic: str) -> str:
        """kill -9 of who it is at this moment that writes to `topic`, and say who it was. Its next start is not waited for.

        Where it cannot be done it raises ProcessError, and is a complaint too.
        """

    def wait_until_whole(self) -> None:
        """Until everybody is back, and has everything. Raises ProcessError."""

    def state(self) -> ClusterState | None:
        """What there is to tell at the end, besides the counts."""

    def close(self) -> None:
        """Leave no process behind."""
