"""What is known of a consumer group while the broker lives, beyond what its log says.

After a restart every member has its whole time again, and the topics are looked at anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class SeenTopics(NamedTuple):
    """The topics that the regular expressions of a group have been compared with, and when."""

    version: int
    steady_ms: float
    names: frozenset[str]


@dataclass(slots=True)
class VolatileState:
    """Deadlines are steady milliseconds, by member.

    `sessions`: until when a member has to be heard from. `joins` and `syncs`: until when a member of the classic
    protocol has to join again, and to ask for its assignment. `revocations`: until when it has to have given up what is
    another's. `seen`: the version of the topics that the group has been compared with, and the epoch that came of it.
    `regexes_seen`: what its regular expressions have been compared with.

    A decision works on a copy, which takes the place of the original once the records of the decision are replayed.
    """

    sessions: dict[str, float] = field(default_factory=dict)
    joins: dict[str, float] = field(default_factory=dict)
    syncs: dict[str, float] = field(default_factory=dict)
    revocations: dict[str, float] = field(default_factory=dict)
    seen: tuple[int, int] | None = None
    regexes_seen: SeenTopics | None = None

    def copy(self) -> VolatileState:
        return VolatileState(
            self.sessions.copy(),
            self.joins.copy(),
            self.syncs.copy(),
            self.revocations.copy(),
            self.seen,
            self.regexes_seen,
        )

    def forget(self, member_id: str) -> None:
        for deadlines in self._deadlines():
            deadlines.pop(member_id, None)

    def next_deadline_ms(self) -> float | None:
        return min((time for deadlines in self._deadlines() for time in deadlines.values()), default=None)

    def due(self, steady_ms: float) -> set[str]:
        """The members that were silent, or kept what is another's, for too long."""
        return {
            member_id
            for deadlines in self._deadlines()
            for member_id, deadline_ms in deadlines.items()
            if deadline_ms <= steady_ms
        }

    def _deadlines(self) -> tuple[dict[str, float], ...]:
        return self.sessions, self.joins, self.syncs, self.revocations

    def has_seen(self, version: int, epoch: int) -> bool:
        return self.seen is not None and self.seen[0] == version and self.seen[1] <= epoch
