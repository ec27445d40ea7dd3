"""The state of a consumer group that is in memory alone.

After a restart the deadlines of all members begin anew, and the topics are compared again.
"""

from __future__ import annotations

import math
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import NamedTuple

from oncelog.coordination.decision import Draft


class SeenTopics(NamedTuple):
    """The topics that the regular expressions of a group have been compared with, and when."""

    version: int
    steady_ms: float
    names: frozenset[str]


class Deadlines:
    """Until when something has to happen, by member, in steady milliseconds.

    A heartbeat moves one of them, whatever their number is: only `due` and `look` go through all.
    """

    __slots__ = ("_until_ms", "next_ms")

    def __init__(self, until_ms: MutableMapping[str, float] | None = None, next_ms: float = math.inf) -> None:
        self._until_ms = {} if until_ms is None else until_ms
        self.next_ms = next_ms
        """The first deadline; None without one. Deadlines that are moved or forgotten do not change it."""

    def __setitem__(self, member_id: str, until_ms: float) -> None:
        self._until_ms[member_id] = until_ms
        self.next_ms = min(self.next_ms, until_ms)

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._until_ms

    def forget(self, member_id: str) -> None:
        self._until_ms.pop(member_id, None)

    def due(self, steady_ms: float) -> set[str]:
        if steady_ms < self.next_ms:
            return set()
        return {member_id for member_id, until_ms in self._until_ms.items() if until_ms <= steady_ms}

    def look(self) -> None:
        """Let `next_ms` be that of a member."""
        self.next_ms = min(self._until_ms.values(), default=math.inf)

    def draft(self) -> Deadlines:
        assert isinstance(self._until_ms, dict), "one decision is worked out at a time"
        return Deadlines(Draft(self._until_ms), self.next_ms)

    def keep(self) -> None:
        if isinstance(self._until_ms, Draft):
            self._until_ms = self._until_ms.kept()


@dataclass(slots=True)
class VolatileState:
    """`sessions`: the deadline for the next heartbeat of a member. `joins` and `syncs`: until when a member of the classic
    protocol has to join again, and to ask for its assignment. `revocations`: until when it has to have given up what is
    another's. `seen`: the version of the topics that the group has been compared with, and the epoch that came of it.
    `regexes_seen`: what its regular expressions have been compared with.

    A decision works on a draft, which takes the place of the original once the records of the decision are replayed.
    """

    sessions: Deadlines = field(default_factory=Deadlines)
    joins: Deadlines = field(default_factory=Deadlines)
    syncs: Deadlines = field(default_factory=Deadlines)
    revocations: Deadlines = field(default_factory=Deadlines)
    seen: tuple[int, int] | None = None
    regexes_seen: SeenTopics | None = None

    def draft(self) -> VolatileState:
        return VolatileState(
            self.sessions.draft(),
            self.joins.draft(),
            self.syncs.draft(),
            self.revocations.draft(),
            self.seen,
            self.regexes_seen,
        )

    def keep(self) -> None:
        """The decision is carried out: the state that it was made on is no more."""
        for deadlines in self._deadlines():
            deadlines.keep()

    def forget(self, member_id: str) -> None:
        for deadlines in self._deadlines():
            deadlines.forget(member_id)

    def next_deadline_ms(self) -> float | None:
        """No deadline is before this one. Which the next is costs a look at all of them: see `look_at_deadlines`."""
        next_ms = min(deadlines.next_ms for deadlines in self._deadlines())
        return None if next_ms == math.inf else next_ms

    def look_at_deadlines(self) -> None:
        for deadlines in self._deadlines():
            deadlines.look()

    def due(self, steady_ms: float) -> set[str]:
        """The members that were silent, or kept what is another's, for too long."""
        return set().union(*(deadlines.due(steady_ms) for deadlines in self._deadlines()))

    def _deadlines(self) -> tuple[Deadlines, ...]:
        return self.sessions, self.joins, self.syncs, self.revocations

    def has_seen(self, version: int, epoch: int) -> bool:
        return self.seen is not None and self.seen[0] == version and self.seen[1] <= epoch
